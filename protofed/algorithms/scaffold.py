"""SCAFFOLD: control variates correct the drift of local training.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020,
arxiv.org/abs/1910.06378.

Server and clients keep control variates c and c_i, estimates of their gradients g. A client takes K steps of
size η from the server's weights x and sends y_i and c_i⁺ − c_i (option II of Algorithm 1).

    client  y_i ← y_i − η · (g − c_i + c),   then c_i⁺ = c_i − c + (x − y_i) / (K·η)
    server  x ← x + η_g · mean(y_i − x),     c ← c + (1/N) · Σ_i (c_i⁺ − c_i)

The correction is a linear term ⟨c − c_i, w⟩ of the loss: its gradient is what is added, its value is
subtracted again so that the reported loss is the cross-entropy.

Departures: buffers (BatchNorm statistics) have no control variates and are averaged. N counts all clients
of the run that can be sampled. Option II presumes that a round moves by Kη times the mean gradient:
momentum, clipping and Adam are refused; with weight decay c_i holds its gradient as well, as it should.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.algorithm import Leg, Needs, Preset, Ran, View, methods
from ..core.answer import Replies
from ..core.averages import Averaged
from ..core.data import Batch, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree
from ..core.task import Task, Turn
from ..ops.losses import ce
from ..ops.sharing import SharedWeights
from ..ops.trees import Average, put, under


class Controlled(Record):
    """Weights, and control variates: the server's on the way down, a client's change on the way up."""

    weights: Tree
    control: Tree


@methods.register("scaffold")
@dataclass(frozen=True)
class Scaffold(SharedWeights):
    """FedAvg whose local gradients are corrected by control variates."""

    eta_g: float = option(1.0, "η_g, step size of the server", above=0)

    paper = "Karimireddy et al., ICML 2020, arXiv:1910.06378"
    needs = Needs(model=True, sgd=True)
    legs = (Leg(down=Controlled, up=Controlled, averages=(Averaged("weights"), Averaged("control"))),)
    presets = {
        "default": Preset(
            train={"momentum": 0.0, "lr": 0.02}, note="plain SGD; a larger lr diverges on few images"
        ),
        "paper": Preset(train={"momentum": 0.0}, note="plain SGD"),
    }

    # server

    def init(self, task: Task, turn: Turn) -> Controlled:
        weights = self.shared(task.fresh(0), task, 0)
        return Controlled(weights, {n: torch.zeros_like(weights[n]) for n in task.names(0).parameters})

    def broadcast(self, state: Controlled, turn: Turn) -> Controlled:
        return state

    def aggregate(self, state: Controlled, replies: Replies, turn: Turn) -> Controlled:
        weights, change = Average(), Average()
        for reply in replies:
            weights.add(reply.up.weights, 1, reply.client)
            change.add(reply.up.control, 1, reply.client)
        mean, moved = weights.result(), change.result()
        stepped = {n: w.lerp(mean[n], self.eta_g) for n, w in state.weights.items() if n in state.control}
        share = change.weight / (turn.task.clients - turn.task.newcomers)
        return Controlled({**mean, **stepped}, {n: c + share * moved[n] for n, c in state.control.items()})

    # client

    def prepare(self, net: Net, data: LocalData, down: Controlled, mem: Tree, turn: Turn) -> View:
        own = self._own(mem, down)
        return {"drift": {n: c - own[n] for n, c in down.control.items()}}

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        parameters = net.parameters()
        term = torch.stack([(view["drift"][n] * p).sum() for n, p in parameters.items()]).sum()
        return ce(net(batch.x)[1], batch.y) + term - term.detach()

    def upload(
        self, net: Net, data: LocalData, down: Controlled, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Controlled, Tree]:
        tensors, own = net.tensors(), self._own(mem, down)
        new = own
        if ran.steps:
            moved = ran.steps * ran.lr
            new = {n: own[n] - c + (ran.start[n] - tensors[n]) / moved for n, c in down.control.items()}
        change = {n: new[n] - own[n] for n in new}
        return Controlled(self.shared(tensors, turn.task, turn.group), change), put("control/", new)

    def _own(self, mem: Tree, down: Controlled) -> Tree:
        """c_i, which starts at 0."""
        return under("control/", mem) or {n: torch.zeros_like(c) for n, c in down.control.items()}
