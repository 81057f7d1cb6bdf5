"""FedGH: the server trains one header for all clients on their class means.

Yi et al., "FedGH: Heterogeneous Federated Learning with Generalized Global Header", ACM Multimedia 2023,
arxiv.org/abs/2303.13137.

Clients may have different bases, but headers of one shape. A client puts the global header on its own
base, trains both with cross-entropy, and uploads the mean embedding of each of its classes. The server
takes gradient steps with the uploaded (mean, class) pairs on the global header, and sends it to all.

    client  L = CE(h(f(x)), y)
    server  θ ← θ − η · ∇ CE(h(p_kc; θ), c)  for every uploaded mean p_kc

Departures and readings:
- The first global header is sent before round 1 too, so that all clients start from one header; the
  released code lets them start from their own.
- A server step takes one pair, in the order of clients and classes, one pass a round, as the released
  loop is written. That loop steps an optimiser which holds the parameters of a client's model, so in the
  released code the header never moves; we do not imitate this. Benchmarks shuffle the pairs into
  batches: `server_batch`, `server_epochs`, `server_shuffle`.
- The released code tests a client's model as it left local training: mode `own`, the client's last
  header on its base. Mode `clf` has the newest global header instead.
- The header is trained in eval mode (dropout off); its buffers, if any, stay as they were made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.algorithm import Algorithm, Leg, Needs, Ran, View, methods
from ..core.answer import Replies, cat
from ..core.data import Batch, ClassCounts, LocalData
from ..core.net import Net
from ..core.optim import Opt, Stepper
from ..core.options import option
from ..core.record import Tree, Weights
from ..core.scoring import FEW
from ..core.task import Task, Turn
from ..ops.losses import ce
from ..ops.prototypes import Protos, class_means, owned, supported
from ..ops.trees import put, under

HEAD = "model.head."


@methods.register("fedgh")
@dataclass(frozen=True)
class FedGH(Algorithm):
    """A global header, trained at the server on the clients' class means."""

    server_lr: float = option(0.01, "η of the header at the server", above=0)
    server_epochs: int = option(1, "passes over the uploaded means a round", low=0)
    server_batch: int = option(1, "uploaded means in a server step", low=1)
    server_shuffle: bool = option(False, "shuffle the uploaded means in each pass")
    min_count: int = option(1, "fewest samples of a class for a client to send its mean", low=1)

    paper = "Yi et al., ACM MM 2023, arXiv:2303.13137"
    modes = ("own", "clf")
    needs = Needs(embedding=True, head=True, halves=True, dense=False)
    legs = (Leg(down=Weights, up=Protos),)
    keep = ("model.base.",)

    @property
    def weighs_alike(self) -> bool:
        return self.min_count <= FEW

    # server

    def init(self, task: Task, turn: Turn) -> Weights:
        return Weights(put(HEAD, under(HEAD, task.fresh(0))))

    def broadcast(self, state: Weights, turn: Turn) -> Weights:
        return state

    def aggregate(self, state: Weights, replies: Replies, turn: Turn) -> Weights:
        """θ ← θ − η ∇ CE(h(mean; θ), class), pair by pair."""
        mean, cls = cat(replies.all(), "mean", "cls")
        if not len(mean):  # nobody has enough samples of any class
            return state
        weights = {name: tensor.clone() for name, tensor in state.weights.items()}
        trained = [name for name in turn.task.names(0).parameters if name in weights]
        params = [weights[name].requires_grad_() for name in trained]
        net = turn.task.net(0, weights)
        stepper = Stepper(trained, {"": Opt(self.server_lr, momentum=0.0)})
        with torch.enable_grad():
            for chunk in self._chunks(len(mean), turn):
                loss = ce(net.head(mean[chunk]), cls[chunk])
                stepper.step(params, torch.autograd.grad(loss, params))
        return Weights({name: tensor.detach() for name, tensor in weights.items()})

    def _chunks(self, count: int, turn: Turn) -> Iterator[Tensor]:
        order = turn.generator("server batches")
        for _ in range(self.server_epochs):
            rows = torch.randperm(count, generator=order) if self.server_shuffle else torch.arange(count)
            yield from torch.split(rows.to(turn.task.device), self.server_batch)

    # client

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        return ce(net(batch.x)[1], batch.y)

    def upload(
        self, net: Net, data: LocalData, down: Weights, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Protos, Tree]:
        mean, n = class_means(net, data, turn.task.C)
        mean, cls, _ = owned(mean, supported(n, data, self.min_count))
        return Protos(mean, cls), net.tensors(HEAD)

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Weights, mem: Tree) -> dict[str, Tensor]:
        z, logits = net(x)
        return {"clf": logits, "own": net.at(mem).head(z) if mem else logits}
