"""The reference engine: one client after the other, in this process. The others must equal it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ..core.client import Outcome, run_leg
from ..core.errors import MessageError
from ..metrics.scores import Score, score_client
from .base import Engine, Failure, Job


class Sequential(Engine):
    name: ClassVar[str] = "sequential"
    together: ClassVar[bool] = False
    window: ClassVar[int | None] = 512

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome | Failure]:
        for turn, leg, down in jobs:
            client = turn.client
            assert client is not None
            try:
                yield run_leg(turn, leg, self.store.get(client), self.data.train(client), down)
            except MessageError as error:
                yield Failure(client, str(error))

    def evaluate(self, jobs: Sequence[Job]) -> Iterator[Score]:
        for turn, _, down in jobs:
            client = turn.client
            assert client is not None
            data = self.data
            yield score_client(turn, self.store.get(client), data.train(client), data.test(client), down)
