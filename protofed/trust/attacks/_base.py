"""What an attack is: the share of the clients that carry it out, and what they do to data or uploads."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from ...core.algorithm import Leg
from ...core.answer import ClientState, Reply, Score
from ...core.averages import Averaged
from ...core.data import ClientData, LocalData
from ...core.options import option
from ...core.record import Nothing, Record
from ...core.registry import Registry
from ...core.rng import torch_generator
from ...core.task import Task, Turn
from ..defences._base import Defence
from ..uploads import fields_of

T = TypeVar("T")


@dataclass(frozen=True)
class Sight:
    """What attackers see when they answer a leg. `honest` and `attacking` are the uploads as the method made
    them, empty unless the attack is colluding; `down` is what the server broadcast before it."""

    leg: Leg
    turn: Turn
    data: ClientData
    honest: Sequence[Reply] = ()
    attacking: Sequence[Reply] = ()
    down: Record = Nothing()
    defence: Defence | None = None
    memo: dict[Any, Any] = field(default_factory=dict)

    @property
    def task(self) -> Task:
        """The task of the run."""
        return self.turn.task

    @cached_property
    def fields(self) -> tuple[Averaged, ...]:
        """The floats of an upload: as the method declares what it averages, else field by field."""
        return fields_of(self.leg)

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """What attackers share in this leg, made when it is first asked for."""
        if key not in self.memo:
            self.memo[key] = make()
        found: T = self.memo[key]
        return found

    def generator(self, client: int) -> torch.Generator:
        """Random numbers of an attacker in this leg."""
        return torch_generator(self.task.seed, self.turn.round, self.leg.name, client, "attack")


@dataclass(frozen=True)
class Later:
    """What attackers see after a test: the server's state and the states of the clients."""

    task: Task
    round: int
    data: ClientData
    state: Record
    client_state: Callable[[int], ClientState | None]
    attackers: frozenset[int]
    tested: Sequence[Score]


@dataclass(frozen=True)
class Attack(ABC):
    """Base of all attacks. By default attackers are honest."""

    share: float = option(0.2, "share of the clients that attack", above=0, below=0.5)

    name: ClassVar[str] = ""
    colluding: ClassVar[bool] = False  # whether attackers see all uploads of a leg before they answer
    needs_states: ClassVar[bool] = False  # whether it uses the attackers' models

    def refusal(self, task: Task) -> str:
        """Why it cannot act here, in words that follow its name; "": it can."""
        return ""

    def poison(self, data: LocalData, task: Task, client: int) -> LocalData:
        """The samples on which an attacker trains."""
        return data

    def upload(self, reply: Reply, sight: Sight) -> Reply:
        """What an attacker sends in place of its upload."""
        return reply

    def target(self, classes: int) -> Tensor | None:
        """The class [C] for which samples of each class are to be taken; None: for any other."""
        return None

    def success(self, later: Later) -> Mapping[str, float] | None:
        """Attack success in percent by mode, where the test's own predictions do not tell it."""
        return None

    @property
    def wanted(self) -> str:
        """What counts as success."""
        return "samples of honest clients that are taken for another class"


attacks: Registry[Attack] = Registry("attack", Attack, "protofed.attacks", home="protofed.trust.attacks")


def changed(reply: Reply, **fields: Any) -> Reply:
    """A reply with some fields of its upload changed."""
    return reply._replace(up=replace(reply.up, **fields))
