"""FedCommons: a classifier of everybody's samples in a common space teaches each private network.

protofed's own method; docs/results/beyond.md has what it reaches, and where it does not.

All clients share a feature map φ that is not trained: random filters from the run's seed, or a frozen
backbone. Each sends first and second moments of φ over its samples, once. The server adds them up, and a
linear discriminant follows in closed form. A client makes it its own: its samples count w times, its class
prior is added, and a temperature says how sure the whole is; w and T are chosen on its samples, each scored
by a discriminant that has not seen it. Beside it the client trains its network, which learns what this
teacher does not know.

    up, once  A_k = Σ φφᵀ (upper triangle), B_kc = Σ_{y=c} φ, n_kc
    server    A = Σ_k A_k, B_c = Σ_k B_kc, N_c = Σ_k n_kc;  μ_c = B_c / N_c
              S = (A − Σ_c N_c μ_c μ_cᵀ) / (N − C′),  Σ = (1−ρ) S + ρ (tr S / M) I
    teacher   t_c(x) = (φᵀ Σ⁻¹ μ_c − ½ μ_cᵀ Σ⁻¹ μ_c) / T + log π_kc,  π_kc = (n_kc + 1) / (n_k + C),
              with Σ and μ of A + (w−1) A_k, B + (w−1) B_k, N + (w−1) n_k; w of 1, 4, 16 (ops/own_weight.py)
    client    L = CE(net(x) + t(x), y) + (κ / n_k) · mean of net(x)²

C′ counts the classes seen and ρ is the OAS shrinkage (ops/moments.py). Modes: `clf` network and teacher;
`prior` the teacher alone; `gp_all` the common classifier, without prior and with w = 1; `gp_local` the same
among the client's own classes.

Known before: closed-form classifiers from added moments of shared features are FedNCM (Legate et al., NeurIPS
2023, means), Fed3R (Fanì et al., ICML 2024, ridge regression, with random features too), FedCOF (Goswami et
al., NeurIPS 2025, covariances from means) and GH-OFL (Turazza et al., ICLR 2026, discriminants from moments).
They end with one classifier for all. New here: each client's own weight, prior and temperature, chosen by
leaving out folds of its own sums, private networks of any architecture trained on the residual, a download
that is sent once too, and the exact removal of a client from a run (`protofed forget`).

Choices:
- The last term is a prior on the network's say: with few samples it learns their noise, and adds less than it
  spoils. Over all samples it weighs κ times the mean of net(x)², whatever their number, so it fades with n_k.
- The server's state is a sum, so it does not depend on partition, order or participation once everybody has
  taken part, and `protofed forget` takes a client out of it exactly. Networks that were trained beside a
  teacher which knew the client keep what they have learned of it: `forget --networks anew`.
- With sums that came since its last training a client predicts by w = 1 and by the temperature that it
  fitted for it; before its second training, by T = 1.
- Before anybody else's sums are there (round 1; with standardised inputs round 2 too) the teacher is the
  prior alone.
- Vectors and sequences are standardised: mean and deviation of each input are fixed in the first round, by
  those who take part in it, and stay when a client is taken out.
- Clients see the totals: with two of them, each other's sums.
- w and T are fitted on at most 1,000 samples, with targets softened as in Platt scaling, and T is never
  below 1: a handful of samples that are told apart would otherwise make the teacher sure of everything, and
  its prior idle.
- Until November 2026 all of a client's sums were left out while T was fitted, and w was 1. Where clients
  differ in what inputs look like or mean (`synthetic`, writers) that T told of a classifier which does not
  know the client, and silenced one that does. Changed on held-out training samples (docs/results/beyond.md).
- Until then, too, images were seen by filters over their colours alone (now `phi=filters`). Where clients'
  images differ in colours and brightness, such filters see these first, and sums of different clients tell
  little about each other's classes: Digit-5 was lost by nine points. Most filters see edges now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.algorithm import Leg, View, methods
from ..core.data import Batch, ClassCounts, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree
from ..core.task import ClientTurn
from ..ops.losses import ce
from ..ops.moments import LinearHead, gaussian_head, log_prior
from ..ops.own_weight import own_head
from ..ops.pooled import ADDED, PLAIN, Pool, PooledSums, Sums, keeps_ledger, scale_of, totals
from ..ops.prototypes import owned

MOST_FITTED = 1000  # samples to which w and T are fitted


class Commons(Record):
    """Everybody's sums, to clients that hold older ones; else no rows."""

    gram: Float[Tensor, "R T"]
    sums: Float[Tensor, "J M"]
    cls: Int[Tensor, "J"]
    n: Int[Tensor, "J"]
    scale: Float[Tensor, "S X"]
    version: Int[Tensor, "V"]


@methods.register("fedcommons")
@dataclass(frozen=True)
class FedCommons(PooledSums):
    """A closed-form classifier in a common space, sent once, with private networks on top."""

    kappa: float = option(100.0, "κ, samples of its own at which a network is let loose", low=0)
    ledger: bool = keeps_ledger()

    modes = ("clf", "prior", "gp_all", "gp_local")
    legs = (Leg(down=Commons, up=Sums, averages=ADDED, plain=PLAIN),)

    # server

    def publish(self, state: Pool, dtype: torch.dtype) -> Commons:
        sums, cls, n = owned(state.sums, state.n)
        gram = state.gram[: len(cls)]
        return Commons(gram.to(dtype), sums.to(dtype), cls, n, state.scale, state.version)

    # client

    def prepare(self, net: Net, data: LocalData, down: Commons, mem: Tree, turn: ClientTurn) -> View:
        mem = {**mem, **self.learned(net, data, down, mem, turn.task.C)}
        head, scale = _head(mem), scale_of(down, mem)
        prior = log_prior(data.counts(turn.task.C)).to(turn.task.dtype)
        if head is None:  # nobody else's sums are known
            width = self.map(turn.task).width
            head = LinearHead(prior.new_zeros(len(prior), width), prior * 0, torch.ones_like(prior) > 0)
        if self.map(turn.task).inputs and not len(scale):
            scale = torch.stack([scale.new_zeros(scale.shape[1]), scale.new_ones(scale.shape[1])])
        held = prior.new_tensor(self.kappa / max(1, len(data)))
        bias = head.bias + prior
        return {"weight": head.weight, "bias": bias, "known": head.known, "scale": scale, "held": held}

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        head, logits = LinearHead(view["weight"], view["bias"], view["known"]), net(batch.x)[1]
        teacher = head.scores(net["phi"](batch.x, view["scale"]))
        loss: Tensor = ce(logits + teacher, batch.y) + view["held"] * logits.square().mean()
        return loss

    def learned(self, net: Net, data: LocalData, down: Commons, mem: Tree, classes: int) -> Tree:
        """Heads of everybody's sums: the common one, and this client's own."""
        found: Tree = {"scale": down.scale} if len(down.scale) else {}
        if not len(down.cls):
            return found | ({"version": down.version} if len(down.scale) else {})
        scale = scale_of(down, mem)
        everybody = totals(down.gram, down.sums, down.cls, down.n, classes)
        own = self.own(net["phi"], data, scale, classes)
        others = everybody.plus(own, -1) if "sent" in mem else everybody
        found["version"] = down.version
        if others.n.sum() < 1:
            return found
        every = -(-len(data) // MOST_FITTED)
        features = net["phi"](data.x[::every], scale).double()
        tried = own_head(features, data.y[::every], others, own, log_prior(own.n))
        mine, common = tried[0], min(tried, key=lambda one: one.weight)
        dtype = down.gram.dtype
        head, plain = (
            mine.head.over(mine.temperature).to(dtype),
            common.head.over(common.temperature).to(dtype),
        )
        return found | {
            "weight": head.weight,
            "bias": head.bias,
            "known": head.known,
            "common_weight": plain.weight,
            "common_bias": plain.bias,
            "temperature": down.gram.new_full((1,), common.temperature),
            "own": down.gram.new_full((1,), mine.weight),
        }

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Commons, mem: Tree) -> dict[str, Tensor]:
        """With sums that came since the client's last training: as the common classifier has them."""
        logits = net(x)[1]
        classes = logits.shape[1]
        prior = log_prior(data.counts(classes)).to(logits.dtype)
        newest = _newest(down, classes, mem) if len(down.cls) else None
        head, common = newest or _head(mem), newest or _head(mem, "common_")
        if head is None or common is None:
            return dict.fromkeys(self.modes, logits + prior)
        features = net["phi"](x, scale_of(down, mem))
        teacher, plain = head.scores(features) + prior, common.scores(features)
        local = plain.masked_fill(~data.present(classes), float("-inf"))
        return {"clf": logits + teacher, "prior": teacher, "gp_all": plain, "gp_local": local}


def _newest(down: Commons, classes: int, mem: Tree) -> LinearHead:
    head = gaussian_head(totals(down.gram, down.sums, down.cls, down.n, classes))
    return head.over(float(mem["temperature"]) if "temperature" in mem else 1.0).to(down.gram.dtype)


def _head(mem: Any, which: str = "") -> LinearHead | None:
    """A head without prior, as a client remembers it: its own, or the `common_` one."""
    known = "weight" in mem
    return LinearHead(mem[f"{which}weight"], mem[f"{which}bias"], mem["known"]) if known else None
