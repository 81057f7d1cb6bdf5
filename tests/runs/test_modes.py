"""Titles and meanings of prediction modes."""

from __future__ import annotations

import pytest

from protofed.core.algorithm import methods
from protofed.runs.modes import MODES, explain, miou_of, plain, title, titled


def test_miou_is_a_mode_with_a_title() -> None:
    assert miou_of("clf") == "miou_clf"
    assert plain("miou_clf") == plain("clf") == "clf"
    assert (title("miou_clf"), title("clf")) == ("mIoU clf", "clf")
    assert titled("miou_clf") == "mIoU clf"
    assert titled("clf") == "clf (classifier)"
    assert titled("odd") == "odd"


def test_every_mode_has_its_line() -> None:
    assert set(explain(["clf", "miou_clf", "odd"])) == {"clf", "miou_clf", "odd"}
    assert explain(["miou_clf"])["miou_clf"].endswith(MODES["clf"].line)
    assert explain(["odd"])["odd"] == "scores that the method names odd"


@pytest.mark.parametrize("name", list(methods))
def test_every_mode_of_a_method_is_explained(name: str) -> None:
    assert set(methods[name]().modes) <= set(MODES)
