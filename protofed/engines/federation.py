"""The round loop, one for all engines and all methods.

draw participants → per leg: broadcast → clients → check → commit → aggregate → evaluate
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch

from ..core.algorithm import Leg
from ..core.answer import Score
from ..core.data import ClientData
from ..core.guard import Adversary, Guard
from ..core.record import Payload, Record
from ..core.stages import is_stage, stage
from ..core.task import ClientTurn, Task, Turn
from .base import Engine, Job
from .inbox import Inbox, Tally
from .sampling import Drawn, Rounds, draw

T = TypeVar("T")
MOST_KEPT = 1000  # participants that a round's record names: records stay small
DIGITS = 6  # of a client's weight in the record


class Federation:
    """Server state and round number; `play` runs the next round."""

    def __init__(
        self,
        task: Task,
        data: ClientData,
        engine: Engine,
        plan: Rounds,
        on_failure: str = "stop",
        guards: Sequence[Guard] = (),
        adversary: Adversary | None = None,
    ):
        self.task = task
        self.data = data
        self.engine = engine
        self.plan = plan
        self.on_failure = on_failure
        self.guards = guards
        self.adversary = adversary or Adversary()
        self.round = 0
        with torch.no_grad():
            self.state: Record = task.algorithm.init(task, Turn(task, 0))

    def play(self, tested: Sequence[int] = ()) -> dict[str, Any]:
        """One round; returns its record (without test results). `tested`: clients whose test comes next, so
        that engines with idle hands may begin with what does not need the new server state."""
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
        asked, late = len(drawn), [one.client for one in drawn if one.late]
        if algorithm.partial == "drop":
            drawn = [d for d in drawn if not d.late]
        *_, last = legs = algorithm.legs
        for leg in legs:
            self.engine.tested_next = frozenset(tested) if leg is last else ()
            drawn = self._leg(leg, drawn, tally)
        seconds = time.perf_counter() - started
        used = [one.client for one in drawn]
        return {
            "round": self.round,
            "train_loss": tally.loss,
            "clients": len(drawn),
            "failed": {str(f.client): f.reason for f in tally.failures},
            "up": _counts(tally.up),
            "down": _counts(tally.down),
            "samples": tally.samples,
            "steps": tally.steps,
            "seconds": seconds,
            **(self._who(used, late) if asked <= MOST_KEPT else {}),
            **self.engine.notes(),
            **self._guarded(),
        }

    def _guarded(self) -> dict[str, Any]:
        """What attackers and guards have to say of the round."""
        found = self.adversary.record()
        for guard in self.guards:
            found |= guard.record()
        return found

    @property
    def spent(self) -> str:
        """Why there must be no further round; "": there may."""
        reasons = (guard.spent(self.round + 1) for guard in self.guards)
        return next((reason for reason in reasons if reason), "")

    def _who(self, used: Sequence[int], late: Sequence[int]) -> dict[str, Any]:
        """Whose uploads were used, who was late, and, if the method tells, what each weighs."""
        samples = {client: self.data.size(client) for client in used}
        told = self.task.algorithm.client_weights(self.state, samples) if samples else None
        found: dict[str, Any] = {"participants": list(used), "late": list(late)}
        if told is not None:
            weights = [round(weight, DIGITS) for weight in told.values()]
            found["average"] = {"clients": list(told), "weights": weights}
        return found

    @is_stage("evaluation")
    def evaluate(self, clients: Sequence[int], on: str = "test") -> list[Score]:
        """Test these clients with their latest local state and the newest server state, on their test samples
        or others (see core.task.TESTS)."""
        algorithm = self.task.algorithm
        scores: list[Score] = []
        for some in _windows(clients, self.engine.window):
            turns = [ClientTurn(self.task, self.round, "eval", client=client, on=on) for client in some]
            scores += self.engine.evaluate(
                [Job(turn, algorithm.broadcast(self.state, turn)) for turn in turns]
            )
        return scores

    def _leg(self, leg: Leg, drawn: list[Drawn], tally: Tally) -> list[Drawn]:
        """One exchange. Returns the clients that answered: who misses a leg misses the rest."""
        turn = Turn(self.task, self.round, leg.name)
        inbox = Inbox(self.engine, leg, self.round, tally, self.on_failure, self.adversary)
        replies = inbox.replies(self._jobs(leg, drawn, tally))
        if replies is not None:  # nobody answered: the state stays
            with stage("server"), torch.no_grad():
                for guard in self.guards:
                    replies = guard.combine(replies, self.state, leg, turn)
                self.state = self.task.algorithm.aggregate(self.state, replies, turn)
                replies.drain()  # a method that reads no replies still wants its clients to train
        return [one for one in drawn if one.client in inbox.answered]

    def _jobs(self, leg: Leg, drawn: list[Drawn], tally: Tally) -> Iterator[list[Job]]:
        """Some at a time, so that downloads do not pile up."""
        for some in _windows(drawn, self.engine.window):
            yield [self._job(leg, one, tally) for one in some]

    def _job(self, leg: Leg, one: Drawn, tally: Tally) -> Job:
        task = self.task
        turn = ClientTurn(task, self.round, leg.name, client=one.client, epochs=one.epochs, late=one.late)
        with stage("server"):
            down = task.algorithm.broadcast(self.state, turn)
        if type(down) is not leg.down:
            name = task.algorithm.name
            raise TypeError(
                f"{name}: leg {leg.name!r} declares {leg.down.__name__}, got {type(down).__name__}"
            )
        with stage("checks"):
            tally.down = tally.down + down.payload(task.names(turn.group).buffers)
        return Job(turn, down)


def _windows(items: Sequence[T], size: int | None) -> Iterator[Sequence[T]]:
    size = size or max(1, len(items))
    return (items[start : start + size] for start in range(0, len(items), size))


def _counts(payload: Payload) -> dict[str, int]:
    return {"params": payload.floats, "bytes": payload.bytes, "meta_bytes": payload.meta_bytes}
