"""Pauses of Flower's that no option sets."""

from __future__ import annotations

from flwr.supercore.inflatable import inflatable_utils

FIRST_PAUSE = 0.05  # seconds; each further one is twice as long


def quick_pulls() -> None:
    """Parts of a message that are still on their way are asked for again after 50 ms at first, not 1 s."""
    for pull in (inflatable_utils.pull_objects, inflatable_utils.pull_and_inflate_object_from_tree):
        defaults = pull.__kwdefaults__ or {}
        assert "initial_backoff" in defaults, "another version of Flower"
        defaults["initial_backoff"] = FIRST_PAUSE
