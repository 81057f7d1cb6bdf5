"""Options: conversion of written values, ranges, choices, and errors that name the nearest match."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.core.errors import ConfigError, unknown
from protofed.core.options import build, option, options_of, parse_spec

quick = settings(max_examples=25, deadline=None)


@dataclass(frozen=True)
class Sample:
    """Something with options."""

    count: int = option(3, "how many", low=1, high=10)
    rate: float = option(0.5, "how fast", above=0, high=1)
    limit: float | None = option(None, "how far", above=0)
    mode: str = option("plain", "how", choices=("plain", "fancy"))
    deep: bool = option(False, "whether")
    widths: tuple[int, ...] = option((), "sizes")
    label: str | None = option(None, "a name")
    more: dict[str, Any] = option({}, "further options")


def made(**values: Any) -> Sample:
    return build(Sample, values, "sample x")


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("count", "4", 4),
        ("count", 4.0, 4),
        ("rate", "1e-2", 0.01),
        ("rate", 1, 1.0),
        ("limit", "none", None),
        ("limit", "None", None),
        ("limit", "2", 2.0),
        ("mode", "fancy", "fancy"),
        ("deep", "yes", True),
        ("deep", "off", False),
        ("deep", 1, True),
        ("deep", True, True),
        ("widths", "16+8", (16, 8)),
        ("widths", [16, 8], (16, 8)),
        ("widths", "", ()),
        ("label", "a", "a"),
        ("label", "", None),
        ("more", {"a": 1}, {"a": 1}),
    ],
)
def test_written_values_become_typed_ones(name: str, written: Any, value: Any) -> None:
    got = getattr(made(**{name: written}), name)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "line"),
    [
        ("count", "three", "sample x: count: expected a whole number, got 'three'"),
        ("count", 2.5, "sample x: count: expected a whole number, got 2.5"),
        ("count", float("inf"), "sample x: count: expected a whole number, got inf"),
        ("count", None, "sample x: count: expected a whole number, got None"),
        ("count", True, "sample x: count: expected a whole number, got True"),
        ("count", 0, "sample x: count: must be at least 1, got 0"),
        ("count", 11, "sample x: count: must be at most 10, got 11"),
        ("rate", 0, "sample x: rate: must be greater than 0, got 0.0"),
        ("rate", "fast", "sample x: rate: expected a number, got 'fast'"),
        ("rate", [1], "sample x: rate: expected a number, got [1]"),
        ("rate", True, "sample x: rate: expected a number, got True"),
        ("rate", "nan", "sample x: rate: must be a finite number, got nan"),
        ("limit", "inf", "sample x: limit: must be a finite number, got inf"),
        ("limit", -1, "sample x: limit: must be greater than 0, got -1.0"),
        ("deep", "perhaps", "sample x: deep: expected true or false, got 'perhaps'"),
        ("widths", 5, "sample x: widths: expected a list, got 5"),
        ("widths", "8+x", "sample x: widths: expected a whole number, got 'x'"),
        ("label", 3, "sample x: label: expected text, got 3"),
        ("more", 3, "sample x: more: expected a table of options, got 3"),
        (
            "mode",
            "fanci",
            "sample x: mode: unknown value 'fanci'; did you mean 'fancy'?",
        ),
    ],
)
def test_wrong_values_are_named_with_place_and_expectation(name: str, given: Any, line: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
        made(**{name: given})


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown option 'cuont'; did you mean 'count'"):
        made(cuont=3)


def test_a_far_off_name_lists_what_there_is() -> None:
    assert unknown("method", "zzz", ["local", "fedavg"]) == "unknown method 'zzz'; known: fedavg, local"


def test_dashes_and_underscores_are_the_same() -> None:
    @dataclass(frozen=True)
    class Two:
        two_words: int = option(1, "x")

    assert build(Two, {"two-words": "5"}, "two").two_words == 5


def test_an_option_without_default_must_be_given() -> None:
    from dataclasses import field

    @dataclass(frozen=True)
    class Needy:
        path: str = field(metadata={"help": "the file"})

    with pytest.raises(ConfigError, match=re.escape("needy: option 'path' must be given (the file)")):
        build(Needy, {}, "needy")


def test_options_of_gives_names_defaults_and_help_in_order() -> None:
    infos = options_of(Sample)
    assert [i.name for i in infos][:3] == ["count", "rate", "limit"]
    assert (infos[0].default, infos[0].help, infos[0].type_name) == (3, "how many", "int")
    assert infos[3].choices == ("plain", "fancy")
    assert infos[-1].default == {}


def test_inherited_options_come_last() -> None:
    @dataclass(frozen=True)
    class Frame:
        common: int = option(1, "of all")

    @dataclass(frozen=True)
    class Special(Frame):
        own: int = option(2, "of this one")

    assert [info.name for info in options_of(Special)] == ["own", "common"]


def test_defaults_of_dicts_are_not_shared() -> None:
    made().more["a"] = 1
    assert made().more == {}


words = st.text(st.characters(whitelist_categories=["L", "Nd"], whitelist_characters="_"), min_size=1)


@quick
@given(words, st.dictionaries(words, words, max_size=4))
def test_written_forms_are_read_back(name: str, options: dict[str, str]) -> None:
    text = name + ":" + ",".join(f"{key}={value}" for key, value in options.items())
    assert parse_spec(text) == (name, options)


def test_a_written_form_without_equal_sign_is_refused() -> None:
    with pytest.raises(ConfigError, match=re.escape("'nway:3': expected key=value after the colon, got '3'")):
        parse_spec("nway:3")


@quick
@given(st.integers(1, 10), st.floats(0.001, 1))
def test_numbers_survive_being_written(count: int, rate: float) -> None:
    assert made(count=str(count), rate=repr(rate)) == Sample(count, rate)
