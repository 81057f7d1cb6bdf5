"""Titles and meanings of prediction modes."""

from __future__ import annotations

import pytest

from protofed.core.algorithm import methods
from protofed.core.errors import ConfigError
from protofed.runs.modes import MODES, check_mode, explain, miou_of, plain, title, titled


def test_miou_is_a_mode_with_a_title() -> None:
    assert miou_of("clf") == "miou_clf"
    assert plain("miou_clf") == plain("clf") == "clf"
    assert (title("miou_clf"), title("clf")) == ("mIoU clf", "clf")
    assert titled("miou_clf") == "mIoU clf"
    assert (miou_of("clf", objects=True), plain("miou_objects_clf")) == ("miou_objects_clf", "clf")
    assert title("miou_objects_clf") == "mIoU objects clf"
    assert titled("clf") == "clf (classifier)"
    assert titled("odd") == "odd"


def test_an_unknown_mode_is_named_with_what_was_meant() -> None:
    for mode in ("clf", "miou_clf", "miou_objects_clf"):
        check_mode(mode, ["clf", "lp"], "--modes")
    with pytest.raises(ConfigError, match=r"^--modes: unknown prediction mode 'mIoU clf'; .*'miou_clf'"):
        check_mode("mIoU clf", ["clf", "lp"], "--modes")
    with pytest.raises(ConfigError, match=r"unknown prediction mode 'foo'; known: clf, lp$"):
        check_mode("foo", ["clf", "lp"], "row a")


def test_every_mode_has_its_line() -> None:
    assert set(explain(["clf", "miou_clf", "odd"])) == {"clf", "miou_clf", "odd"}
    assert explain(["miou_clf"])["miou_clf"].endswith(MODES["clf"].line)
    assert "without the background" in explain(["miou_objects_clf"])["miou_objects_clf"]
    assert explain(["odd"])["odd"] == "scores that the method names odd"


@pytest.mark.parametrize("name", list(methods))
def test_every_mode_of_a_method_is_explained(name: str) -> None:
    assert set(methods[name]().modes) <= set(MODES)
