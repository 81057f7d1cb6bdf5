"""Where the time of a round goes. Exclusive times: a part does not count what it calls of another part."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from ..core import client as client_module
from ..core.optim import Stepper
from ..core.record import Record
from ..engines import cohort as cohort_module
from ..engines.federation import Federation
from ..engines.inbox import Inbox
from ..experiment import Experiment

PARTS = {
    "data": "batches: shuffling, gathering, augmentation",
    "forward": "the method's loss",
    "backward": "gradients",
    "optimiser": "parameter steps",
    "prepare": "installing tensors, `prepare` and `before`",
    "upload": "prototype passes and uploads",
    "checks": "checking and counting messages",
    "server": "aggregation and broadcast",
    "evaluation": "testing the clients",
    "engine": "all else",
}


class Clock:
    """Seconds per part; the innermost part that is running gets the time."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._stack = ["engine"]
        self._since = time.perf_counter()

    def restart(self) -> None:
        self._since = time.perf_counter()

    def stop(self) -> None:
        self._switch()

    def _switch(self) -> None:
        now = time.perf_counter()
        self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        self._switch()
        self._stack.append(name)
        try:
            yield
        finally:
            self._switch()
            self._stack.pop()

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(name):
                return function(*args, **kwargs)

        return timed

    def wrap_iterator(
        self, name: str, function: Callable[..., Iterator[Any]]
    ) -> Callable[..., Iterator[Any]]:
        def timed(*args: Any, **kwargs: Any) -> Iterator[Any]:
            iterator = function(*args, **kwargs)
            while True:
                with self.part(name):
                    item = next(iterator, None)
                if item is None:
                    return
                yield item

        return timed


def profile(experiment: Experiment, rounds: int) -> dict[str, float]:
    """Seconds per part of a round with a test of all clients, the mean over `rounds`.

    The engine must run in this process: sequential or cohort.
    """
    federation = experiment.federation
    federation.play()  # warm-up: loads data, builds modules
    federation.evaluate(experiment.tested())
    clock = Clock()
    with ExitStack() as patches:
        for target, name, part in _targets(experiment):
            patches.enter_context(mock.patch.object(target, name, clock.wrap(part, getattr(target, name))))
        for module in (client_module, cohort_module):
            batches = clock.wrap_iterator("data", module.phase_batches)
            patches.enter_context(mock.patch.object(module, "phase_batches", batches))
        # Replies are pulled while the server aggregates; what clients do then is not the server's time.
        answers = clock.wrap_iterator("engine", federation.engine.run)
        patches.enter_context(mock.patch.object(federation.engine, "run", answers))
        clock.restart()
        for _ in range(rounds):
            federation.play()
            federation.evaluate(experiment.tested())
        clock.stop()
    return {part: seconds / rounds for part, seconds in clock.seconds.items()}


def _targets(experiment: Experiment) -> list[tuple[Any, str, str]]:
    method = type(experiment.task.algorithm)
    losses = {phase.loss for leg in experiment.task.algorithm.legs for phase in leg.phases}
    return [
        *((method, name, "forward") for name in losses),
        (method, "upload", "upload"),
        (method, "aggregate", "server"),
        (method, "broadcast", "server"),
        (torch.autograd, "grad", "backward"),
        (Stepper, "step", "optimiser"),
        (client_module, "begin", "prepare"),
        (cohort_module, "begin", "prepare"),
        *((Inbox, name, "checks") for name in ("_all", "_bundle")),
        (Record, "payload", "checks"),
        (Federation, "evaluate", "evaluation"),
    ]
