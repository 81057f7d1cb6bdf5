"""Stages of a round reach who watches, nested as they are, and nobody else."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from protofed.core.stages import is_stage, stage, watched


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


def test_nothing_is_told_without_or_after_a_watch(watch, seen: list[str]) -> None:
    assert checked(1) == 2
    with pytest.raises(ZeroDivisionError), watched(watch):
        raise ZeroDivisionError
    assert checked(1) == 2
    assert seen == []
