"""What an engine is: it carries out jobs at clients. It knows no method and takes no decision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from ..core.algorithm import Leg, find_leg
from ..core.answer import Answer, Score
from ..core.data import ClientData
from ..core.record import Record
from ..core.task import ClientTurn, Task
from .checks import Checks
from .store import Store


class Job(NamedTuple):
    """One client's part of one leg (or of a test): when and who, and what goes down."""

    turn: ClientTurn
    down: Record

    @property
    def client(self) -> int:
        """Who."""
        return self.turn.client

    @property
    def leg(self) -> Leg:
        """The leg that the turn names."""
        return find_leg(self.turn.task.algorithm, self.turn.leg)


class Engine(ABC):
    """Carries out jobs. Answers come in the order of the jobs, whatever order they were worked on, a
    block at the place of its first; so sums on the server do not depend on timing."""

    name: ClassVar[str]
    together: ClassVar[bool] = True  # answers come many at a time; else each as soon as it is ready
    window: ClassVar[int | None] = None  # most jobs that are handed over together; None: all of a leg

    def __init__(self, task: Task, data: ClientData, store: Store):
        self.task = task
        self.data = data
        self.store = store
        self.tested_next: Container[int] = ()  # clients that are tested as soon as this leg is over
        self.checks: Checks | None = Checks(task)  # None: the engine yields only what it checked itself

    @abstractmethod
    def run(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """Train. Lazy where possible: a reply may be dropped from memory once it was read."""

    @abstractmethod
    def evaluate(self, jobs: Sequence[Job]) -> Iterator[Score]:
        """Test."""

    def notes(self) -> dict[str, Any]:
        """What the engine adds to the record of the round that it just carried out."""
        return {}

    def memory(self) -> dict[str, Any]:
        """What a checkpoint keeps of the engine, as JSON takes it."""
        return {}

    def recall(self, memory: dict[str, Any]) -> None:
        """Go on from what a checkpoint kept."""

    def close(self) -> None:
        """Free what the engine holds (processes, connections)."""
