"""What an engine is: it carries out jobs at clients. It knows no method and takes no decision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from ..core.algorithm import Leg
from ..core.client import Outcome
from ..core.data import ClientData
from ..core.record import Record
from ..core.task import Task, Turn
from ..metrics.scores import Score
from .store import Store


class Job(NamedTuple):
    """One client's part of one leg (or of an evaluation)."""

    turn: Turn
    leg: Leg
    down: Record


class Failure(NamedTuple):
    """A client whose work did not count, and why."""

    client: int
    reason: str


class Engine(ABC):
    """Carries out jobs. Answers come in the order of the jobs, whatever order they were worked on,
    so that sums on the server do not depend on timing."""

    name: ClassVar[str]

    def __init__(self, task: Task, data: ClientData, store: Store):
        self.task = task
        self.data = data
        self.store = store

    @abstractmethod
    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome | Failure]:
        """Train. Lazy where possible: a reply may be dropped from memory once it was read."""

    @abstractmethod
    def evaluate(self, jobs: Sequence[Job]) -> Iterator[Score]:
        """Test."""

    def notes(self) -> dict[str, Any]:
        """What the engine adds to the record of the round that it just carried out."""
        return {}

    def close(self) -> None:
        """Free what the engine holds (processes, connections)."""
