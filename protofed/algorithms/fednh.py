"""FedNH: the head is a set of class prototypes on the unit sphere, spread out at first, and moved slowly.

Dai, Chen, Li, Heinecke, Sun and Xu, "Tackling Data Heterogeneity in Federated Learning with Class
Prototypes", AAAI 2023, arxiv.org/abs/2212.02758.

Clients train the body against a fixed head W, whose rows start as far apart as they can be. They send
the body and the mean of the normalised embeddings of each of their classes; the server averages bodies,
and lets these means into the head bit by bit.

    client  L = CE(s · f(x)/‖f(x)‖ · Wᵀ, y),   μ_kc = mean of f(x)/‖f(x)‖ over its samples of class c
    server  W_c ← normalise( ρ W_c + (1 − ρ) Σ_k (n_kc / N_c) μ_kc )

Departures and readings:
- The scale s is fixed (`scale`); the released code trains it. With rows of length 1 cosines are at most
  1, and s is the largest difference between two logits, halved: 20 lets the softmax decide.
- Rows of W start as a simplex (all cosines −1/(C−1)), the solution of the paper's problem of uniformity
  where the embedding has at least as many dimensions as there are classes; else as points that push each
  other away.
- W_c of a class that nobody holds in a round stays. The model's own head is not used, and stays at the
  client.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from ..core.algorithm import Algorithm, Leg, Needs, Phase, Preset, Ran, View, methods
from ..core.answer import Replies
from ..core.averages import SAMPLES, Averaged
from ..core.data import Batch, ClassCounts, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree
from ..core.task import Task, Turn
from ..ops.distances import cosine
from ..ops.losses import ce
from ..ops.prototypes import class_sums, means, owned
from ..ops.sphere import uniform
from ..ops.trees import Average

BODY = "model.base."


class Body(Record):
    """Upload: the body, and means of normalised embeddings."""

    distinct = "cls"
    weights: Tree
    mean: Float[Tensor, "J D"]
    cls: Int[Tensor, "J"]
    n: Int[Tensor, "J"]


class BodyAndHead(Record):
    """Download and server state."""

    weights: Tree
    head: Float[Tensor, "C D"]


@methods.register("fednh")
@dataclass(frozen=True)
class FedNH(Algorithm):
    """A head of spread-out class prototypes that slowly take up what the classes look like."""

    rho: float = option(0.9, "ρ, share of the old head in the new one", low=0, high=1)
    scale: float = option(20.0, "s, scale of the cosines", above=0)

    paper = "Dai et al., AAAI 2023, arXiv:2212.02758"
    needs = Needs(model=True, halves=True, embedding=True, dense=False)
    averages = (Averaged("weights", weight=SAMPLES), Averaged("mean", by="cls", weight="n"))
    legs = (Leg(down=BodyAndHead, up=Body, phases=(Phase(train=(BODY,)),), averages=averages),)
    keep = ("model.head.",)
    presets = {"paper": Preset({"rho": 0.9}, {"batch_size": 64, "lr": 0.01, "momentum": 0.9, "epochs": 5})}

    # server

    def init(self, task: Task, turn: Turn) -> BodyAndHead:
        rows = uniform(task.C, task.D, turn.generator("head"))
        weights = {name: tensor for name, tensor in task.fresh(0).items() if name.startswith(BODY)}
        return BodyAndHead(weights, rows.to(task.device, task.dtype))

    def broadcast(self, state: BodyAndHead, turn: Turn) -> BodyAndHead:
        return state

    def aggregate(self, state: BodyAndHead, replies: Replies, turn: Turn) -> BodyAndHead:
        average, total = Average(), torch.zeros_like(state.head)
        count = torch.zeros_like(state.head[:, 0])
        for reply in replies:
            up = reply.up
            average.add(up.weights, reply.n, reply.client)
            total.index_add_(0, up.cls, up.mean * up.n[:, None])
            count.index_add_(0, up.cls, up.n.to(count.dtype))
        moved = normalize(self.rho * state.head + (1 - self.rho) * means(total, count))
        return BodyAndHead(average.result(), moved.where(count[:, None] > 0, state.head))

    # client

    def prepare(self, net: Net, data: LocalData, down: BodyAndHead, mem: Tree, turn: Turn) -> View:
        return {"head": down.head}

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        return ce(self.scale * cosine(net.embed(batch.x), view["head"]), batch.y)

    def upload(
        self, net: Net, data: LocalData, down: BodyAndHead, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Body, Tree]:
        sums = [class_sums(normalize(net.embed(x)), y, turn.task.C) for x, y in data.chunks()]
        total, n = (torch.stack(part).sum(0) for part in zip(*sums))
        return Body(net.tensors(BODY), *owned(means(total, n), n)), mem

    def predict(
        self, net: Net, x: Tensor, data: ClassCounts, down: BodyAndHead, mem: Tree
    ) -> dict[str, Tensor]:
        return {"clf": self.scale * cosine(net.embed(x), down.head)}

    # analysis

    def prototypes(self, state: BodyAndHead) -> tuple[Tensor, Tensor]:
        return state.head, torch.arange(len(state.head), device=state.head.device)
