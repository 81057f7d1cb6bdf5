"""What the settings of trust put into the round loop: the guards, in the order in which uploads pass them."""

from __future__ import annotations

from collections.abc import Callable

from ..core.guard import Guard
from ..core.task import Task
from .noise import Spending
from .privacy import private_guard
from .robust import make_robust
from .secure_settings import check_secure, secure_of
from .settings import Trust


def make_guards(
    trust: Trust,
    task: Task,
    participants: int,
    sums: str = "added",
    holders: Callable[[], int] | None = None,
    samples: int = 0,
    books: Spending | None = None,
) -> tuple[Guard, ...]:
    """The guards that the settings ask for; ConfigError, before training, where one of them is of no use.
    `participants`: clients that are asked in a round. `sums` of secure runs: "added" here, "masked" here as
    in a deployment, or "elsewhere" by the engine. `holders`: clients with the class that most have.
    `samples`: training samples of all clients. `books`: of a deployment, whose noise is secret."""
    guards: list[Guard] = []
    if trust.secure:
        check_secure(trust, task.algorithm, participants)
    private = private_guard(trust, task, participants, samples, books)
    if trust.robust is not None:
        guards.append(make_robust(trust.robust, task, participants, holders))
    if trust.secure and sums != "elsewhere":
        from .secure_guard import SecureSums  # needs Flower's parts

        guards.append(SecureSums(task, secure_of(trust), masked=sums == "masked"))
    return (*guards, private) if private else tuple(guards)
