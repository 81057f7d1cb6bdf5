"""The reference engine: one client after the other, in this process. The others must equal it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ..core.ahead import Ahead
from ..core.answer import Answer, Failure, Score
from ..core.client import run_leg, score_part
from ..core.errors import MessageError
from ..core.scoring import ScoredPart, joined
from .base import Engine, Job


class Sequential(Engine):
    """Trains and tests one client at a time."""

    name: ClassVar[str] = "sequential"
    together: ClassVar[bool] = False
    window: ClassVar[int | None] = 512
    ahead: Ahead | None = None  # what was made for tests in advance: in worker processes

    def run(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """A reply, or a failure, for each job."""
        for job in jobs:
            state, data = self.store.get(job.client), self.data.train(job.client)
            try:
                yield run_leg(job.turn, job.leg, state, data, job.down)
            except MessageError as error:
                yield Failure(job.client, str(error))

    def evaluate(self, jobs: Sequence[Job]) -> Iterator[Score]:
        """A score for each job."""
        return (joined([self.part(job)]) for job in jobs)

    def part(self, job: Job, chunks: range | None = None) -> ScoredPart:
        """A client's test, or some chunks of it."""
        (turn, down), client, data = job, job.client, self.data
        state, held = self.store.get(client), data.validation(client)
        samples = data.train(client), data.test(client)
        return score_part(turn, state, *samples, down, held, chunks, self.ahead)
