"""What a command left, and what a refusal looks like."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

SMALL = (
    "--models", "mlp", "--clients", "4", "--rounds", "2", "--epochs", "1", "--lr", "0.01",
    "--engine", "sequential",
)  # fmt: skip


class Called(NamedTuple):
    code: int
    out: str
    err: str


Call = Callable[..., Called]


def assert_refused(got: Called, *words: str, code: int = 2) -> None:
    """One line on stderr that has all these words; nothing on stdout."""
    assert got.code == code, got
    assert got.out == "", got
    assert got.err.startswith("protofed: error: "), got
    assert got.err.count("\n") == 1, got.err
    for word in words:
        assert word in got.err, (word, got.err)
