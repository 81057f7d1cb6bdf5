"""FedPLVM: FINCH at the clients and at the server keeps the spread of each class visible.

Wang, Bian, Zhang, Chen and Xu, "Taming Cross-Domain Representation Variance in Federated Prototype
Learning with Heterogeneous Data Domains", NeurIPS 2024, arxiv.org/abs/2403.09048.

A client clusters the embeddings of each class and uploads the cluster means with its model; the server
pools them per class and clusters again. Similarities are cosines raised to a power α < 1 (α-sparsity):
s_j = cos(z, G_j)^α. With U^y the mean of the prototypes of class y, a client minimises

    L = CE + λ · (L_contra + L_corr)
    L_contra = −log( Σ_{j of class y} e^{s_j/τ} / Σ_j e^{s_j/τ} )
    L_corr = 2 · (cos(z, U^y) − 1)²

Departures:
- λ is 1: both terms are of the size of a cross-entropy. The λ = 100 of the released code (preset `paper`)
  belongs to Digit-5 with ResNet10; a small network then never learns to classify.
- L_corr is that of the released code; `corr=alpha_mean` is 1 − s_j averaged over the prototypes of the
  class, as later work describes the term.
- s_α clamps the cosine to [1e-6, 1]: the released code raises it as it is, which is NaN below zero and
  has an infinite slope at zero. `signed` keeps the sign instead.
- The released code switches the prototype terms on once every client has uploaded (`start=all`; with
  clients that never take part, they stay off), averages models without weights when labels are
  balanced, and drops incomplete batches: preset `official`. There each client's first model is its
  own; here all start from the server's.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.algorithm import Needs, Preset, Ran, View, methods
from ..core.answer import Replies
from ..core.data import Batch, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree
from ..core.task import Task, Turn
from ..ops.clusters import Clustered, ClusteredPrototypes, pooled, renew
from ..ops.contrast import centres, contrast, own_mean, same_class
from ..ops.distances import cosine, power_similarity
from ..ops.losses import ce

TRAIN = MappingProxyType({"lr": 0.01, "momentum": 0.5, "weight_decay": 1e-5, "batch_size": 32, "epochs": 2})


class Global(Record):
    """Server state."""

    weights: Tree
    mean: Float[Tensor, "J D"]
    cls: Int[Tensor, "J"]
    uploaded: Int[Tensor, "K"]  # 1 for a client that has ever uploaded


@methods.register("fedplvm")
@dataclass(frozen=True)
class FedPLVM(ClusteredPrototypes):
    """Prototypes clustered at two levels, compared by α-sparse similarity."""

    lam: float = option(1.0, "λ, weight of both prototype terms", low=0)
    alpha: float = option(0.25, "α, power of the cosine", above=0)
    tau: float = option(0.07, "τ, temperature of the contrast", above=0)
    corr: str = option(
        "cosine",
        "L_corr: to the class's mean prototype, or to all its prototypes",
        choices=("cosine", "alpha_mean"),
    )
    signed: bool = option(False, "s_α of a negative cosine: −|cos|^α instead of that of 1e-6")
    start: str = option(
        "any", "prototype terms start with the first prototypes, or once all uploaded", choices=("any", "all")
    )

    paper = "Wang et al., NeurIPS 2024, arXiv:2403.09048"
    single = "clusters single prototypes"
    needs = Needs(model=True, embedding=True, dense=False)  # clustering all pixels is out of reach
    presets = {
        "paper": Preset({"lam": 100.0}, TRAIN, "Digit-5: 10 images per class, 50 rounds"),
        "official": Preset(
            {"lam": 100.0, "start": "all", "weighting": "uniform", "stale": "drop"},
            {**TRAIN, "drop_last": True},
            "the authors' released code, balanced labels",
        ),
    }

    # server

    def init(self, task: Task, turn: Turn) -> Global:
        uploaded = task.zeros("K", int, K=task.clients)
        return Global(task.fresh(0), task.zeros("0 D"), task.zeros("0", int), uploaded)

    def broadcast(self, state: Global, turn: Turn) -> Clustered:
        """With `start=all` no prototypes go out before every client has uploaded once, newcomers apart."""
        active = turn.task.clients - turn.task.newcomers
        if self.start == "all" and not bool(state.uploaded[:active].all()):
            return Clustered(state.weights, state.mean[:0], state.cls[:0])
        return Clustered(state.weights, state.mean, state.cls)

    def aggregate(self, state: Global, replies: Replies, turn: Turn) -> Global:
        weights, clients, (mean, cls) = pooled(replies, self.weighting, "mean", "cls")
        mean, cls, _ = self.cluster(mean, cls)
        cls, mean = renew(self.stale, (state.cls, state.mean), (cls, mean))
        uploaded = state.uploaded.index_fill(0, torch.tensor(clients, device=cls.device), 1)
        return Global(weights, mean, cls, uploaded)

    # client

    def prepare(self, net: Net, data: LocalData, down: Clustered, mem: Tree, turn: Turn) -> View:
        centre, known = centres(down.mean, down.cls, turn.task.C)
        return {"mean": down.mean, "cls": down.cls, "centre": centre, "known": known}

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        """CE + λ(L_contra + L_corr); CE alone while there are no prototypes."""
        z, logits = net(batch.x)
        loss = ce(logits, batch.y)
        if not view["mean"].shape[0]:
            return loss
        own = same_class(batch.y, view["cls"])
        s = power_similarity(z, view["mean"], self.alpha, self.signed)
        corr = own_mean(1 - s, own) if self.corr == "alpha_mean" else self._cosine_gap(z, batch.y, view)
        return loss + self.lam * (contrast(s / self.tau, own) + corr).mean()

    def _cosine_gap(self, z: Tensor, y: Tensor, view: View) -> Tensor:
        """2(cos(z, U^y) − 1)² [B], 0 where the class has no prototypes."""
        gap = 2 * (cosine(z, view["centre"]).gather(1, y[:, None])[:, 0] - 1).square()
        return gap.where(view["known"][y], gap.new_zeros(()))

    def upload(
        self, net: Net, data: LocalData, down: Clustered, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Clustered, Tree]:
        mean, cls, _ = self.cluster(*self.embedded(net, data, turn.task.C))
        return Clustered(net.tensors(), mean, cls), mem
