"""What FedGH and FedRE have in common: the server trains one header for all clients on what they upload.

`SharedHeader` is not a method, but their frame. Clients may have different bases, but headers of one shape; a
client puts the global header on its own base and trains both. A method adds what is uploaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..core.algorithm import Algorithm, Needs, View, carries_clients
from ..core.data import Batch, ClassCounts
from ..core.net import Net
from ..core.optim import Opt, Stepper
from ..core.options import option
from ..core.record import Tree, Weights
from ..core.task import Task, Turn
from .losses import ce
from .trees import put, under

HEAD = "model.head."


@dataclass(frozen=True)
class SharedHeader(Algorithm):
    """A header that the server trains, on bases that stay at the clients."""

    server_lr: float = option(0.01, "η of the header at the server", above=0)
    server_epochs: int = option(1, "passes over the uploads a round", low=0)
    server_batch: int = option(1, "uploads in a server step", low=1)
    server_shuffle: bool = option(False, "shuffle the uploads in each pass")

    modes = ("own", "clf")
    needs = Needs(embedding=True, head=True, halves=True, dense=False)
    keep = ("model.base.",)

    # server

    def init(self, task: Task, turn: Turn) -> Weights:
        return Weights(put(HEAD, under(HEAD, task.fresh(0))))

    def broadcast(self, state: Weights, turn: Turn) -> Weights:
        return state

    def trained(self, state: Weights, inputs: Tensor, targets: Tensor, turn: Turn) -> Weights:
        """The header after its steps on embeddings [J, D] with classes [J], or shares of classes [J, C]."""
        if not len(inputs):  # nobody had anything to send
            return state
        weights = {name: tensor.clone() for name, tensor in state.weights.items()}
        names = [name for name in turn.task.names(0).parameters if name in weights]
        params = [weights[name].requires_grad_() for name in names]
        net = turn.task.net(0, weights)
        stepper = Stepper(names, {"": Opt(self.server_lr, momentum=0.0)})
        with torch.enable_grad():
            for chunk in self._chunks(len(inputs), turn):
                loss = cross_entropy(net.head(inputs[chunk]), targets[chunk])
                stepper.step(params, torch.autograd.grad(loss, params))
        return Weights({name: tensor.detach() for name, tensor in weights.items()})

    def _chunks(self, count: int, turn: Turn) -> Iterator[Tensor]:
        order = turn.generator("server batches")
        for _ in range(self.server_epochs):
            rows = torch.randperm(count, generator=order) if self.server_shuffle else torch.arange(count)
            yield from torch.split(rows.to(turn.task.device), self.server_batch)

    # client

    @carries_clients
    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        return ce(net(batch.x)[1], batch.y)

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Weights, mem: Tree) -> dict[str, Tensor]:
        """`own`: the header that the client trained last (its memory), `clf`: the newest global one."""
        z, logits = net(x)
        return {"clf": logits, "own": net.at(mem).head(z) if mem else logits}
