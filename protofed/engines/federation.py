"""The round loop, one for all engines and all methods.

draw participants → per leg: broadcast → clients → check → commit → aggregate → evaluate
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..core.algorithm import Leg
from ..core.client import Outcome, Work
from ..core.data import ClientData
from ..core.errors import MessageError
from ..core.record import Payload, Record, Replies, Reply
from ..core.task import Task, Turn
from ..metrics.scores import Score
from .base import Engine, Failure, Job
from .sampling import Drawn, Rounds, draw


@dataclass
class Tally:
    """What one round cost and did."""

    up: Payload = Payload()
    down: Payload = Payload()
    works: list[Work] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def loss(self) -> float:
        """Mean training loss over the clients that made steps."""
        losses = [w.loss for w in self.works if w.steps]
        return sum(losses) / len(losses) if losses else math.nan


class Federation:
    """Server state and round number; `play` runs the next round."""

    def __init__(self, task: Task, data: ClientData, engine: Engine, plan: Rounds, on_failure: str = "stop"):
        self.task = task
        self.data = data
        self.engine = engine
        self.plan = plan
        self.on_failure = on_failure
        self.round = 0
        with torch.no_grad():
            self.state: Record = task.algorithm.init(task, Turn(task, 0))

    def play(self) -> dict[str, Any]:
        """One round; returns its record (without test results)."""
        self.round += 1
        tally, started = Tally(), time.perf_counter()
        algorithm = self.task.algorithm
        drawn = draw(
            self.plan,
            self.plan.sampling or algorithm.sampling,
            self.task.clients,
            self.task.epochs,
            self.task.seed,
            self.round,
            self.data.size,
        )
        if algorithm.partial == "drop":
            drawn = [d for d in drawn if not d.late]
        for leg in algorithm.legs:
            drawn = self._leg(leg, drawn, tally)
        return {
            "round": self.round,
            "train_loss": tally.loss,
            "clients": len(drawn),
            "failed": {str(f.client): f.reason for f in tally.failures},
            "up": _counts(tally.up),
            "down": _counts(tally.down),
            "samples": sum(w.samples for w in tally.works),
            "seconds": time.perf_counter() - started,
            **self.engine.notes(),
        }

    def evaluate(self, clients: Sequence[int]) -> list[Score]:
        """Test these clients with their latest local state and the newest server state."""
        algorithm = self.task.algorithm
        leg = Leg("eval", algorithm.legs[0].down)
        turns = [Turn(self.task, self.round, "eval", client) for client in clients]
        jobs = [Job(turn, leg, algorithm.broadcast(self.state, turn)) for turn in turns]
        return list(self.engine.evaluate(jobs))

    def _leg(self, leg: Leg, drawn: list[Drawn], tally: Tally) -> list[Drawn]:
        """One exchange. Returns the clients that answered: who misses a leg misses the rest."""
        answered: set[int] = set()
        jobs = [self._job(leg, one, tally) for one in drawn]
        replies = self._accepted(leg, jobs, tally, answered)
        first = next(replies, None)
        if first is not None:  # nobody answered: the state stays
            with torch.no_grad():
                turn = Turn(self.task, self.round, leg.name)
                self.state = self.task.algorithm.aggregate(
                    self.state, Replies(itertools.chain([first], replies)), turn
                )
                for _ in replies:  # a method that reads no replies still wants its clients to train
                    pass
        return [one for one in drawn if one.client in answered]

    def _job(self, leg: Leg, one: Drawn, tally: Tally) -> Job:
        task = self.task
        turn = Turn(task, self.round, leg.name, one.client, one.epochs, one.late)
        down = task.algorithm.broadcast(self.state, turn)
        if type(down) is not leg.down:
            name = task.algorithm.name
            raise TypeError(
                f"{name}: leg {leg.name!r} declares {leg.down.__name__}, got {type(down).__name__}"
            )
        tally.down = tally.down + down.payload(task.names(turn.group).buffers)
        return Job(turn, leg, down)

    def _accepted(self, leg: Leg, jobs: list[Job], tally: Tally, answered: set[int]) -> Iterator[Reply]:
        """Replies that passed the checks. A client's new state counts only with an accepted reply."""
        for outcome in self.engine.run(jobs):
            problem = outcome if isinstance(outcome, Failure) else self._problem(leg, outcome)
            if problem is not None:
                if self.on_failure == "stop":
                    raise MessageError(problem.reason)
                tally.failures.append(problem)
                continue
            assert isinstance(outcome, Outcome)
            self.engine.store.put(outcome.client, outcome.state)
            answered.add(outcome.client)
            tally.works.append(outcome.work)
            buffers = self.task.names(self.task.group_of(outcome.client)).buffers
            tally.up = tally.up + outcome.up.payload(buffers)
            yield Reply(outcome.client, outcome.n, outcome.up)

    def _problem(self, leg: Leg, outcome: Outcome) -> Failure | None:
        who = f"{self.task.algorithm.name}: round {self.round}: upload of client {outcome.client}"
        try:
            if type(outcome.up) is not leg.up:
                raise MessageError(f"{who}: expected {leg.up.__name__}, got {type(outcome.up).__name__}")
            outcome.up.check(self.task.sizes, who)
        except MessageError as error:
            hint = "; training diverged (lower lr), or BatchNorm's statistics have seen too few steps"
            return Failure(outcome.client, str(error) + (hint if "not finite" in str(error) else ""))
        return None


def _counts(payload: Payload) -> dict[str, int]:
    return {"params": payload.floats, "bytes": payload.bytes, "meta_bytes": payload.meta_bytes}
