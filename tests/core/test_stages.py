"""Stages of a round reach who watches, nested as they are, and nobody else."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from protofed.core.stages import is_stage, stage, staged, watched


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def watch(seen: list[str]):
    @contextmanager
    def watch(name: str) -> Iterator[None]:
        seen.append(f"+{name}")
        yield
        seen.append(f"-{name}")

    return watch


@is_stage("checks")
def checked(value: int) -> int:
    """Named."""
    with stage("data"):
        return value + 1


def test_a_function_and_what_it_calls_are_told(watch, seen: list[str]) -> None:
    with watched(watch):
        assert checked(1) == 2
    assert seen == ["+checks", "+data", "-data", "-checks"]
    assert checked.__doc__ == "Named."


def test_only_the_making_of_items_belongs_to_the_stage(watch, seen: list[str]) -> None:
    with watched(watch):
        for number in staged("data", [1, 2]):
            seen.append(str(number))
    assert seen == ["+data", "-data", "1", "+data", "-data", "2", "+data", "-data"]


def test_nothing_is_told_without_or_after_a_watch(watch, seen: list[str]) -> None:
    assert checked(1) == 2
    assert list(staged("data", [1])) == [1]
    with pytest.raises(ZeroDivisionError), watched(watch):
        raise ZeroDivisionError
    assert checked(1) == 2
    assert seen == []
