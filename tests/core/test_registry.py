"""Registries: names to classes, built from their written form."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from protofed.core.errors import ConfigError
from protofed.core.options import option
from protofed.core.registry import Registry


class Thing:
    name: str


def registry() -> Registry[Thing]:
    things: Registry[Thing] = Registry("thing")

    @things.register("box")
    @dataclass(frozen=True)
    class Box(Thing):
        """A box.

        More about it.
        """

        size: int = option(1, "edge", low=1)

    @things.register("bag")
    @dataclass(frozen=True)
    class Bag(Thing):
        pass

    return things


def test_make_builds_from_the_written_form() -> None:
    box = registry().make("box:size=4")
    assert (box.name, box.size) == ("box", 4)  # type: ignore[attr-defined]


def test_extra_options_win() -> None:
    assert registry().make("box:size=4", {"size": 7}).size == 7  # type: ignore[attr-defined]


def test_iteration_is_sorted_and_membership_works() -> None:
    things = registry()
    assert list(things) == ["bag", "box"]
    assert "box" in things
    assert "crate" not in things


def test_the_summary_is_the_first_line() -> None:
    assert registry().summary("box") == "A box."


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ("bix", "unknown thing 'bix'; did you mean 'box'"),
        ("box:size=0", "thing box: size: must be at least 1, got 0"),
        ("box:sise=3", "thing box: unknown option 'sise'; did you mean 'size'?"),
    ],
)
def test_mistakes_are_named(spec: str, line: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(line)):
        registry().make(spec)


def test_a_name_is_given_once() -> None:
    things = registry()
    with pytest.raises(ConfigError, match="thing 'box' is registered twice"):
        things.register("box")(Thing)


def test_the_same_class_may_be_registered_again() -> None:
    things = registry()
    cls = things["box"]
    assert things.register("box")(cls) is cls


def test_methods_are_there_whatever_was_imported_first() -> None:
    """The package imports nothing by itself; a registry that is asked fetches what belongs to it."""
    code = "from protofed.config import resolve; print(resolve({'method': 'fedtgp'}).method)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert ended.stdout.strip() == "fedtgp", ended.stderr
