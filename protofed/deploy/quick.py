"""Pauses of Flower's that no option sets, and work that it does too often."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from flwr.supercore.corestate.sql_corestate import SqlCoreState
from flwr.supercore.inflatable import inflatable_utils

FIRST_PAUSE = 0.05  # seconds; each further one is twice as long
CLEAR_SECONDS = 1.0


def quick_pulls() -> None:
    """Parts of a message that are still on their way are asked for again after 50 ms at first, not 1 s."""
    for pull in (inflatable_utils.pull_objects, inflatable_utils.pull_and_inflate_object_from_tree):
        defaults = pull.__kwdefaults__ or {}
        assert "initial_backoff" in defaults, "another version of Flower"
        defaults["initial_backoff"] = FIRST_PAUSE


def quick_link() -> None:
    """With every request Flower's link writes to its database twice, to clear away claims of processes that
    have shown no sign of life for a minute. Once a second is enough."""
    name = "_cleanup_expired_task_tokens"
    assert hasattr(SqlCoreState, name), "another version of Flower"
    setattr(SqlCoreState, name, seldom(getattr(SqlCoreState, name), CLEAR_SECONDS))


def seldom(method: Callable[[Any], None], seconds: float) -> Callable[[Any], None]:
    """The method, which does nothing if it was called for the same object a moment ago."""
    last: dict[int, float] = {}

    def call(owner: Any) -> None:
        now = time.monotonic()
        if now - last.get(id(owner), -seconds) >= seconds:
            last[id(owner)] = now
            method(owner)

    return call
