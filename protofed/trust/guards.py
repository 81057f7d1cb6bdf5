"""What the settings of trust put into the round loop: the guards, in the order in which uploads pass them."""

from __future__ import annotations

from ..core.guard import Guard
from ..core.task import Task
from .settings import Trust


def make_guards(trust: Trust, task: Task, participants: int) -> tuple[Guard, ...]:
    """The guards that the settings ask for; ConfigError, before training, where one of them is of no use.
    `participants`: clients that are asked in a round."""
    guards: list[Guard] = []
    return tuple(guards)
