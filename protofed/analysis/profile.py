"""Where the time of a round goes. Exclusive times: a stage does not count what it calls of another stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..core.stages import STAGES, watched
from ..experiment import Experiment


class Clock:
    """Seconds per stage; the innermost stage that is running gets the time."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._stack = ["engine"]
        self._since = time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """What runs inside counts for this stage."""
        self.switch()
        self._stack.append(name)
        try:
            yield
        finally:
            self.switch()
            self._stack.pop()

    def switch(self) -> None:
        """Give the time since the last switch to the innermost stage."""
        now = time.perf_counter()
        self.seconds[self._stack[-1]] += now - self._since
        self._since = now


def profile(experiment: Experiment, rounds: int) -> dict[str, float]:
    """Seconds per stage of a round with a test of all clients, the mean over `rounds`.

    Stages are those of this process. With worker processes, `engine` and `evaluation` are mostly the time in
    which it waits for them to train and to test.
    """
    federation, tested = experiment.federation, experiment.tested()
    try:
        federation.play(tested)  # warm-up: loads data, builds modules
        federation.evaluate(tested)
        clock = Clock()
        with watched(clock.stage):
            for _ in range(rounds):
                federation.play(tested)
                federation.evaluate(tested)
            clock.switch()
    finally:
        federation.engine.close()
    return {stage: seconds / rounds for stage, seconds in clock.seconds.items()}
