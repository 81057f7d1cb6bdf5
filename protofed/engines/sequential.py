"""The reference engine: one client after the other, in this process. The others must equal it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ..core.answer import Answer, Failure, Score
from ..core.client import run_leg, score_client
from ..core.errors import MessageError
from .base import Engine, Job


class Sequential(Engine):
    """Trains and tests one client at a time."""

    name: ClassVar[str] = "sequential"
    together: ClassVar[bool] = False
    window: ClassVar[int | None] = 512

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
        for turn, down in jobs:
            client, data = turn.client, self.data
            parts = data.train(client), data.test(client)
            yield score_client(turn, self.store.get(client), *parts, down, data.validation(client))
