"""The guard that the settings `dp` and `max_epsilon` ask for, or the reason why there can be none."""

from __future__ import annotations

import logging

import torch

from ..core.algorithm import Algorithm
from ..core.errors import ConfigError
from ..core.guard import Guard
from ..core.private import PrivateSteps
from ..core.record import Nothing
from ..core.task import Task, Turn
from .budget import Budget
from .levels import ClientLevel, ExampleLevel, Level, make_level
from .noise import Spending
from .private_average import PrivateAverage
from .private_sums import PrivateSums, check_sums_leg
from .private_training import PrivateTraining, check_training, releases_of
from .settings import Trust

log = logging.getLogger("protofed")


def private_guard(
    trust: Trust, task: Task, participants: int, samples: int, books: Spending | None = None
) -> Guard | None:
    """The guard of a run; None without `dp`. ConfigError, before training, where noise would promise nothing.

    `samples`: training samples of all clients. `books`: of a deployment, whose noise is secret."""
    if trust.dp is None:
        if trust.max_epsilon is not None:
            raise ConfigError(
                f"max_epsilon {trust.max_epsilon:g}: nothing is counted without dp; give dp as well, as in "
                "client:noise=4.84,clip=1,delta=1e-5"
            )
        return None
    if trust.robust is not None:
        raise ConfigError(
            f"dp: noise is made for sums, and robust {trust.robust} is none: what one client can move it by "
            "is not bounded by clip; leave one of the two out"
        )
    level = make_level(trust.dp)
    level.check(samples if isinstance(level, ExampleLevel) else task.clients - task.newcomers)
    guard = _guard(level, trust, task, participants, books)
    reason = guard.spent(1)
    if reason:
        raise ConfigError(f"max_epsilon: no round can be played: {reason}; raise noise, or max_epsilon")
    _warn_of_end(guard, task.rounds)
    return guard


def _guard(level: Level, trust: Trust, task: Task, participants: int, books: Spending | None) -> Guard:
    algorithm = task.algorithm
    if algorithm.needs.merged:
        raise ConfigError(f"dp: {algorithm.name} has all samples in one place: there is no client to hide")
    sends = [leg for leg in algorithm.legs if leg.up is not Nothing]
    if any(one.added for leg in sends for one in leg.averages):
        _check_single(level, task)
        check_sums_leg(sends[0], algorithm.name)
        if trust.secure:
            raise ConfigError(
                f"dp {level.name}: secure sums and noise do not go together yet for {algorithm.name}"
            )
        bound = algorithm.sample_bound(task)
        if isinstance(level, ExampleLevel) and level.clip is not None:
            raise ConfigError(
                f"dp example: clip={level.clip:g}: {algorithm.name} takes no local steps with noise; its "
                "features are no longer than its option radius allows; leave clip out"
            )
        clip = level.clip if isinstance(level, ClientLevel) else 0.0
        return PrivateSums(Budget(level, 0, 1, trust.max_epsilon, books), bound, clip, sends[0])
    if not isinstance(level, ClientLevel):
        return _training(level, trust, task, books)
    _check_single(level, task)
    _check_wholes(task)
    budget = Budget(level, len(sends), 0, trust.max_epsilon, books)
    return PrivateAverage(level, budget, participants)


def _training(level: Level, trust: Trust, task: Task, books: Spending | None) -> Guard:
    assert isinstance(level, ExampleLevel)
    if books is not None:
        raise ConfigError(
            "dp example: noise in local steps is for simulations and rehearsals so far; deploy a method of "
            "fixed features (fedcommons, fed3r, fedncm), or hide whole clients: dp client:…"
        )
    if task.algorithm.single == "sends nothing up":
        raise ConfigError(f"dp example: {task.algorithm.name} sends nothing up: there is nothing to hide")
    check_training(task)
    return PrivateTraining(level, Budget(level, releases_of(task), 0, trust.max_epsilon, books))


def private_steps(trust: Trust, algorithm: Algorithm) -> PrivateSteps | None:
    """Noise in local training that the settings ask for; none where sums of fixed features are sent."""
    if trust.dp is None or any(one.added for leg in algorithm.legs for one in leg.averages):
        return None
    level = make_level(trust.dp)
    return level.steps if isinstance(level, ExampleLevel) else None


def _check_single(level: Level, task: Task) -> None:
    algorithm = task.algorithm
    if algorithm.single:
        raise ConfigError(
            f"dp {level.name}: {algorithm.name} {algorithm.single}: noise in a sum does not hide what single "
            "uploads show; use a method whose server averages, such as fedproto or fedavg"
        )


def _check_wholes(task: Task) -> None:
    """Statistics of BatchNorm with noise are of no use: variances below 0."""
    algorithm = task.algorithm
    fields = {one.field for leg in algorithm.legs for one in leg.averages if not one.by}
    if not fields:
        return
    with torch.no_grad():
        state = algorithm.init(task, Turn(task, 0))
    buffers = task.names(0).buffers
    for field in fields:
        held = getattr(state, field, None)
        for name, tensor in held.items() if isinstance(held, dict) else ():
            if name in buffers and tensor.is_floating_point():
                raise ConfigError(
                    f"dp client: {algorithm.name} would average BatchNorm's statistics ({name}) with noise; "
                    "keep them at the clients (params_only=true, where the method has it), or take a model "
                    "without BatchNorm"
                )


def _warn_of_end(guard: Guard, rounds: int) -> None:
    """Tell before a long run that its budget is too small for it."""
    low, high = 1, rounds
    if not guard.spent(rounds):
        return
    while high - low > 1:  # `spent` of a higher round never turns back
        middle = (low + high) // 2
        low, high = (low, middle) if guard.spent(middle) else (middle, high)
    log.warning("max_epsilon: the run will end after round %d of %d", low, rounds)
