"""A method's options beside the settings of a run: one name means one thing on the command line."""

from __future__ import annotations

import pytest

from protofed import algorithms  # noqa: F401 (registers all methods)
from protofed.cli.main import main
from protofed.config import SECTIONS, resolve, setting_names
from protofed.core.algorithm import methods
from protofed.core.options import options_of


@pytest.mark.parametrize("name", list(methods))
def test_no_option_has_the_name_of_a_setting(name: str) -> None:
    settings = {*setting_names(), *SECTIONS}
    assert not settings & {option.name for option in options_of(methods[name])}


def test_both_ways_of_clipping_can_be_given() -> None:
    config = resolve({"method": "fml", "clip": 3.0, "options": {"clip_each": None}})
    assert (config.train.clip, config.make_method().clip_each) == (3.0, None)


def test_both_are_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "fedkd", "--help"])
    printed = capsys.readouterr().out
    assert "--clip " in printed
    assert "--clip-each " in printed
