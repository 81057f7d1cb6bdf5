"""FedPLCC: cluster prototypes weighted by the samples behind them; features follow only the closest.

Kuang, Guo, Liang and Zhang, "An Enhanced Federated Prototype Learning Method under Domain Shift",
2024, arxiv.org/abs/2409.18578.

Clients cluster the embeddings of each class with FINCH*, which also counts the samples of each cluster
(Eq. 9), and upload model, cluster means and counts; the server clusters again, sums the counts (Eq. 10)
and divides them by their sum per class (Eq. 11). These are the weights w_j of the prototypes G_j. With
s_j = cos(z, G_j)^α (Eq. 7), a client minimises

    L = CE + λ1 · L_contra + λ2 · L_corr                                                 (Eq. 4)
    L_contra = −log( Σ_{j of class y} w_j · e^{s_j/τ} / Σ_j w_j · e^{s_j/τ} )            (Eq. 6)
    L_corr = −Σ w_j · s_j  over the largest ⌈φ·|G^y|⌉ of the class's own prototypes      (Eq. 8)

Departures:
- λ1 is 1, as printed for DomainNet: L_contra is of the size of a cross-entropy. Preset `paper` has the 100
  of Digit-5, with which a small network never learns to classify; `office10` and `domainnet` theirs.
- Eq. 5 prints a sum over the data; all terms are batch means.
- s_α (Eq. 7) clamps the cosine to [1e-6, 1]: a power of a negative number is NaN, and the slope at zero
  infinite. `signed` keeps the sign instead.
- Cluster means are unweighted, since the paper changes only the weights; `weighted_centre` weighs them.
- τ is 0.07 as in the set-up; the sweep's "0.55 … lower than" 0.07 can only mean 0.055.
- E = 10 is called epochs in the algorithm and iterations in the set-up: `local_unit=iter` trains for
  exactly `iters` steps a round, stragglers included. The batch size is not printed; 32 is FedPLVM's.
- Ablations (table V): `terms`, `phi=1`, `w=one`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.algorithm import Leg, Needs, Phase, Preset, Ran, View, methods
from ..core.answer import Replies
from ..core.data import Batch, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree
from ..core.task import Task, Turn
from ..ops.clusters import ClusteredPrototypes, pooled, renew
from ..ops.contrast import class_shares, contrast, same_class, top_counts, top_sum
from ..ops.distances import power_similarity
from ..ops.losses import ce

TRAIN = MappingProxyType({"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-5, "batch_size": 32, "epochs": 10})


class Clusters(Record):
    """Down, up and server state: the model, and cluster means with their weights and classes."""

    weights: Tree
    mean: Float[Tensor, "J D"]
    w: Float[Tensor, "J"]  # up: samples of the cluster; down: share within the class
    cls: Int[Tensor, "J"]


@methods.register("fedplcc")
@dataclass(frozen=True)
class FedPLCC(ClusteredPrototypes):
    """Weighted cluster prototypes; features converge to the closest of their class."""

    lam1: float = option(1.0, "λ1, weight of the contrast (Eq. 4)", low=0)
    lam2: float | None = option(None, "λ2, weight of the correction (Eq. 4); none: 10·λ1", low=0)
    alpha: float = option(0.5, "α, power of the cosine (Eq. 7)", above=0)
    tau: float = option(0.07, "τ, temperature of the contrast (Eq. 6)", above=0)
    phi: float = option(0.5, "φ, share of the class's prototypes that attract (Eq. 8)", above=0, high=1)
    terms: str = option("both", "prototype terms in the loss", choices=("both", "contra", "corr", "none"))
    w: str = option(
        "size", "weights of prototypes in the loss: cluster sizes, or all 1", choices=("size", "one")
    )
    local_unit: str = option(
        "epoch", "local training a round: the epochs of the run, or `iters` steps", choices=("epoch", "iter")
    )
    iters: int = option(10, "steps a round with local_unit=iter", low=1)
    signed: bool = option(False, "s_α of a negative cosine: −|cos|^α instead of that of 1e-6")
    weighted_centre: bool = option(False, "weigh cluster means by the samples behind their members")

    paper = "Kuang et al., 2024, arXiv:2409.18578"
    single = "clusters single prototypes"
    needs = Needs(model=True, embedding=True, dense=False)  # clustering all pixels is out of reach
    presets = {
        "paper": Preset({"lam1": 100.0}, TRAIN, "Digit-5: about 300 samples a client, 50 rounds"),
        "office10": Preset({"lam1": 20.0}, TRAIN, "Office-10: 100 rounds"),
        "domainnet": Preset({"lam1": 1.0}, TRAIN, "DomainNet: about 400 samples a client, 50 rounds"),
    }

    @property
    def legs(self) -> tuple[Leg, ...]:
        # An epoch has at least one step, so `iters` epochs are enough for `iters` steps.
        phase = Phase() if self.local_unit == "epoch" else Phase(epochs=self.iters, steps=self.iters)
        return (Leg(down=Clusters, up=Clusters, phases=(phase,)),)

    @property
    def weighs_alike(self) -> bool:
        return self.w == "one" and super().weighs_alike

    # server

    def init(self, task: Task, turn: Turn) -> Clusters:
        return Clusters(task.fresh(0), task.zeros("0 D"), task.zeros("0"), task.zeros("0", int))

    def aggregate(self, state: Clusters, replies: Replies, turn: Turn) -> Clusters:
        """Eq. 10 and 11, and the average of the models."""
        weights, _, (mean, cls, w) = pooled(replies, self.weighting, "mean", "cls", "w")
        mean, cls, w = self.cluster(mean, cls, w, self.weighted_centre)
        w = class_shares(w, cls, turn.task.C)
        cls, mean, w = renew(self.stale, (state.cls, state.mean, state.w), (cls, mean, w))
        return Clusters(weights, mean, w, cls)

    # client

    def prepare(self, net: Net, data: LocalData, down: Clusters, mem: Tree, turn: Turn) -> View:
        w = down.w if self.w == "size" else torch.ones_like(down.w)
        return {
            "mean": down.mean,
            "w": w,
            "cls": down.cls,
            "top": top_counts(down.cls, turn.task.C, self.phi),
        }

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        """Eq. 4: CE + λ1 L_contra + λ2 L_corr; CE alone while there are no prototypes."""
        z, logits = net(batch.x)
        loss = ce(logits, batch.y)
        if not view["mean"].shape[0] or self.terms == "none":
            return loss
        own = same_class(batch.y, view["cls"])
        s = power_similarity(z, view["mean"], self.alpha, self.signed)
        if self.terms in ("both", "contra"):
            loss = loss + self.lam1 * contrast(s / self.tau + view["w"].log(), own).mean()
        if self.terms in ("both", "corr"):
            lam2 = 10 * self.lam1 if self.lam2 is None else self.lam2
            loss = loss - lam2 * top_sum(s * view["w"], own, view["top"][batch.y]).mean()
        return loss

    def upload(
        self, net: Net, data: LocalData, down: Clusters, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Clusters, Tree]:
        mean, cls, w = self.cluster(*self.embedded(net, data, turn.task.C))
        return Clusters(net.tensors(), mean, w, cls), mem
