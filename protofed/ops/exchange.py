"""What methods have in common that exchange one prototype a class and nothing else.

`PrototypeExchange` is not a method, but their frame: a client uploads its class means and downloads one
prototype for each class that the server knows. A method adds how the server makes these, and its loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.algorithm import Algorithm, Leg, Needs, Ran, View
from ..core.answer import Replies, cat
from ..core.data import ClassCounts, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree
from ..core.scoring import FEW
from ..core.task import Task, Turn
from .prototypes import Protos, class_means, means, owned, prototype_predictions, supported, table


class KnownPrototypes(Record):
    """Server state: a prototype for each class, and whether there is one."""

    mean: Float[Tensor, "C D"]
    known: Int[Tensor, "C"]


@dataclass(frozen=True)
class PrototypeExchange(Algorithm):
    """One prototype a class, up and down."""

    min_count: int = option(1, "fewest samples of a class for a client to send its prototype", low=1)

    modes = ("clf", "gp_all", "gp_local", "lp")
    needs = Needs(embedding=True, dense=False)
    legs = (Leg(down=Protos, up=Protos),)

    @property
    def weighs_alike(self) -> bool:
        return self.min_count <= FEW

    # server

    def init(self, task: Task, turn: Turn) -> Record:
        return KnownPrototypes(task.zeros("C D"), task.zeros("C", int))

    def broadcast(self, state: Any, turn: Turn) -> Protos:
        return Protos(*owned(state.mean, state.known)[:2])

    # client

    def prepare(self, net: Net, data: LocalData, down: Protos, mem: Tree, turn: Turn) -> View:
        protos, known = table(down.mean, down.cls, turn.task.C)
        return {"protos": protos, "known": known}

    def upload(
        self, net: Net, data: LocalData, down: Protos, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Record, Tree]:
        mean, n = class_means(net, data, turn.task.C)
        rows, cls, _ = owned(mean, supported(n, data, self.min_count))
        return Protos(rows, cls), {"mean": mean, "n": n}

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Any, mem: Tree) -> dict[str, Tensor]:
        return prototype_predictions(net, x, data, down, mem)

    # analysis

    def prototypes(self, state: Any) -> tuple[Tensor, Tensor]:
        return owned(state.mean, state.known)[:2]


def uploaded(replies: Replies) -> tuple[Tensor, Tensor]:
    """Prototypes [J, D] and classes [J] of all clients, in the order of the clients."""
    mean, cls = cat(replies.all(), "mean", "cls")
    return mean, cls


def plain_means(mean: Tensor, cls: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Of the uploads of each class the unweighted mean [C, D], and their number [C]."""
    count = torch.bincount(cls, minlength=classes)
    sums = mean.new_zeros(classes, mean.shape[1]).index_add(0, cls, mean)
    return means(sums, count), count
