"""What an engine is: it carries out jobs at clients. It knows no method and takes no decision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

from ..core.algorithm import Leg
from ..core.client import ClientState, Outcome, Work
from ..core.data import ClientData
from ..core.fields import Joined
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


class Bundle(NamedTuple):
    """Answers of several clients whose uploads were joined where they were made."""

    clients: Sequence[int]
    n: Sequence[int]
    up: Joined
    states: Sequence[ClientState]
    works: Sequence[Work]


Answer: TypeAlias = Outcome | Failure | Bundle


class Engine(ABC):
    """Carries out jobs. Answers come in the order of the jobs, whatever order they were worked on, a
    bundle at the place of its first; so sums on the server do not depend on timing."""

    name: ClassVar[str]
    together: ClassVar[bool] = True  # answers come many at a time; else each as soon as it is ready
    window: ClassVar[int | None] = None  # most jobs that are handed over together; None: all of a leg

    def __init__(self, task: Task, data: ClientData, store: Store):
        self.task = task
        self.data = data
        self.store = store

    @abstractmethod
    def run(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """Train. Lazy where possible: a reply may be dropped from memory once it was read."""

    @abstractmethod
    def evaluate(self, jobs: Sequence[Job]) -> Iterator[Score]:
        """Test."""

    def notes(self) -> dict[str, Any]:
        """What the engine adds to the record of the round that it just carried out."""
        return {}

    def close(self) -> None:
        """Free what the engine holds (processes, connections)."""
