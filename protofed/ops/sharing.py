"""Hooks that weight-sharing methods have in common, and the naming of what is shared.

`SharedWeights` is not a method: it is FedAvg's frame (send weights, train, average by sample counts)
for methods that change one step of it. A subclass names the tensors that stay private, or overrides a
hook. `SharedBase` is the same with an option for what stays private.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..core.algorithm import Algorithm, Leg, Needs, Ran, View, carries_clients
from ..core.answer import Replies
from ..core.averages import SAMPLES, Averaged
from ..core.data import Batch, LocalData
from ..core.errors import ConfigError
from ..core.net import Net, selects
from ..core.options import option
from ..core.record import Record, Tree, Weights
from ..core.task import Task, Turn
from .losses import ce
from .trees import Average

_PARTS = {"head": ("head",), "fc": ("base.fc", "head")}


@dataclass(frozen=True)
class SharedWeights(Algorithm):
    """Clients train from the server's weights; the server averages the results by sample counts."""

    params_only: bool = option(False, "keep BatchNorm statistics private instead of averaging them")

    @property
    def private(self) -> tuple[str, ...]:
        """Prefixes of the tensors that never leave a client."""
        return ()

    @property
    def needs(self) -> Needs:
        return Needs(model=True)

    @property
    def legs(self) -> tuple[Leg, ...]:
        return (Leg(down=Weights, up=Weights, averages=self.averages),)

    @property
    def averages(self) -> tuple[Averaged, ...]:
        """What the server averages, for the method's leg."""
        return (Averaged("weights", weight=SAMPLES if self.weight(2) != self.weight(1) else ""),)

    @property
    def keep(self) -> tuple[str, ...]:
        return (*self.private, "buffers") if self.params_only else self.private

    # server

    def init(self, task: Task, turn: Turn) -> Record:
        self._check_private(task)
        return Weights(self.shared(task.fresh(0), task, 0))

    def broadcast(self, state: Any, turn: Turn) -> Any:
        return state

    def aggregate(self, state: Any, replies: Replies, turn: Turn) -> Record:
        return Weights(self.average(replies))

    # client

    @carries_clients
    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        return ce(net(batch.x)[1], batch.y)

    def upload(
        self, net: Net, data: LocalData, down: Any, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Record, Tree]:
        return Weights(self.shared(net.tensors(), turn.task, turn.group)), mem

    # parts of hooks

    def weight(self, samples: int) -> float:
        """Weight in the average of a client with so many training samples."""
        return samples

    def average(self, replies: Replies) -> Tree:
        """Mean of the uploaded weights, by `weight`."""
        average = Average()
        for reply in replies:
            average.add(reply.up.weights, self.weight(reply.n), reply.client)
        return average.result()

    def shared(self, tensors: Tree, task: Task, group: int) -> Tree:
        """Those of a client's tensors that are sent."""
        hidden = task.names(group).buffers if self.params_only else frozenset()
        return {n: t for n, t in tensors.items() if n not in hidden and not selects(self.private, n)}

    def _check_private(self, task: Task) -> None:
        for group in range(len(task.groups)):
            names = task.names(group).parameters
            for prefix in self.private:
                if not any(name.startswith(prefix) for name in names):
                    raise ConfigError(
                        f"{self.name}: model {task.groups[group].name} has no part {_written(prefix)!r}; "
                        f"its parts are {_parts(names)}"
                    )
            if all(selects(self.private, name) for name in names):
                raise ConfigError(
                    f"{self.name}: all of model {task.groups[group].name} would be private, nothing shared; "
                    "name a smaller part as `split`"
                )


@dataclass(frozen=True)
class SharedBase(SharedWeights):
    """The same for methods whose clients share one part of the model and keep the other, named by `split`."""

    split: str = option("head", "what stays private: head, fc, or module names joined by +")

    @property
    def private(self) -> tuple[str, ...]:
        return private_prefixes(self.split)

    @property
    def needs(self) -> Needs:
        return split_needs(self.private)


def private_prefixes(split: str) -> tuple[str, ...]:
    """Prefixes of the parts that a split keeps private: "head", "fc", or parts joined by "+" or ",".

    >>> private_prefixes("head")
    ('model.head.',)
    >>> private_prefixes("base.fc+head") == private_prefixes("fc")
    True
    """
    parts = _PARTS.get(split) or tuple(p.strip() for p in re.split("[+,]", split) if p.strip())
    return tuple(f"model.{part.removeprefix('model.').rstrip('.')}." for part in parts)


def split_needs(private: tuple[str, ...]) -> Needs:
    """Equal bases, unless the head is shared as well."""
    return Needs(base=True, head=not selects(private, "model.head."))


def _written(prefix: str) -> str:
    return prefix.removeprefix("model.").rstrip(".")


def _parts(names: tuple[str, ...]) -> str:
    """The first two levels of the modules: "base.conv, base.fc, head"."""
    found = {".".join(name.split(".")[1:-1][:2]) for name in names if name.startswith("model.")}
    return ", ".join(sorted(found))
