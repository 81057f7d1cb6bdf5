"""Centralized: one model trained on all samples in one place. Not federated; the reference from above.

The first client holds the training samples of all clients and trains E epochs in each of T rounds, T·E in
all; the model is tested on every client's test samples. Nothing crosses a network, so nothing is counted.

    L = CE over the samples of all clients

Departures: the optimiser starts anew in each round, as that of federated clients does.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..core.algorithm import Algorithm, Leg, Needs, Ran, View, methods
from ..core.answer import Replies
from ..core.data import Batch, LocalData
from ..core.net import Net
from ..core.record import Payload, Record, Tree
from ..core.task import Task, Turn
from ..ops.losses import ce


class InPlace(Record):
    """The model. It stays where the samples are."""

    weights: Tree

    def payload(self, buffers: frozenset[str] = frozenset()) -> Payload:
        return Payload()


@methods.register("centralized")
@dataclass(frozen=True)
class Centralized(Algorithm):
    """One model on the samples of all clients; no federation."""

    needs = Needs(model=True, merged=True)
    legs = (Leg(down=InPlace, up=InPlace),)
    single = "has all samples in one place"
    keep = ()

    # server

    def init(self, task: Task, turn: Turn) -> InPlace:
        return InPlace(task.fresh(0))

    def broadcast(self, state: InPlace, turn: Turn) -> InPlace:
        return state

    def aggregate(self, state: InPlace, replies: Replies, turn: Turn) -> InPlace:
        (only,) = replies.all()
        return InPlace(only.up.weights)

    # client

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        return ce(net(batch.x)[1], batch.y)

    def upload(
        self, net: Net, data: LocalData, down: InPlace, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[InPlace, Tree]:
        return InPlace(net.tensors()), mem
