"""FedCommons: a classifier of everybody's samples in a common space teaches each private network.

protofed's own method; docs/results/beyond.md has what it reaches, and where it does not.

All clients share a feature map φ that is not trained: random filters from the run's seed, or a frozen
backbone. Each sends first and second moments of φ over its samples, once. The server adds them up, and a
linear discriminant follows in closed form. A client sharpens it by its own class prior and by a temperature
fitted to its samples, on the sums without its own, and trains its network beside it: the network learns what
the common classifier does not know.

    up, once  A_k = Σ φφᵀ (upper triangle), B_kc = Σ_{y=c} φ, n_kc
    server    A = Σ_k A_k, B_c = Σ_k B_kc, N_c = Σ_k n_kc;  μ_c = B_c / N_c
              S = (A − Σ_c N_c μ_c μ_cᵀ) / (N − C′),  Σ = (1−ρ) S + ρ (tr S / M) I
    teacher   t_c(x) = (φᵀ Σ⁻¹ μ_c − ½ μ_cᵀ Σ⁻¹ μ_c) / T + log π_kc,  π_kc = (n_kc + 1) / (n_k + C)
    client    L = CE(net(x) + t(x), y) + (κ / n_k) · mean of net(x)²

C′ counts the classes seen and ρ is the OAS shrinkage (ops/moments.py). Modes: `clf` network and teacher;
`prior` the teacher alone; `gp_all` the teacher without its prior; `gp_local` the same among the client's own
classes.

Known before: closed-form classifiers from added moments of shared features are FedNCM (Legate et al., NeurIPS
2023, means), Fed3R (Fanì et al., ICML 2024, ridge regression, with random features too), FedCOF (Goswami et
al., NeurIPS 2025, covariances from means) and GH-OFL (Turazza et al., ICLR 2026, discriminants from moments).
They end with one classifier for all. New here: each client's own prior and leave-me-out temperature, private
networks of any architecture trained on the residual, a download that is sent once too, and the exact removal
of a client from a run (`protofed forget`).

Choices:
- The last term is a prior on the network's say: with few samples it learns their noise, and adds less than it
  spoils. Over all samples it weighs κ times the mean of net(x)², whatever their number, so it fades with n_k.
- The server's state is a sum, so it does not depend on partition, order or participation once everybody has
  taken part, and `protofed forget` takes a client out of it exactly. Networks that were trained beside a
  teacher which knew the client keep what they have learned of it: `forget --networks anew`.
- Until a client has fitted T, that is before its second training, it predicts with T = 1.
- Before anybody else's sums are there (round 1; with standardised inputs round 2 too) the teacher is the
  prior alone.
- Vectors and sequences are standardised: mean and deviation of each input are fixed in the first round, by
  those who take part in it, and stay when a client is taken out.
- Clients see the totals: with two of them, each other's sums.
- T is fitted on at most 1,000 samples, with targets softened as in Platt scaling, and never below 1: a
  handful of samples that the others' sums tell apart would otherwise make the teacher sure of everything,
  and its prior idle.
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
from ..ops.moments import LinearHead, fit_temperature, gaussian_head, log_prior
from ..ops.pooled import ADDED, PLAIN, Pool, PooledSums, Sums, keeps_ledger, scale_of, totals
from ..ops.prototypes import owned

MOST_FITTED = 1000  # samples to which T is fitted


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
        """The head of everybody's sums, tempered by what the others' make of this client's samples."""
        found: Tree = {"scale": down.scale} if len(down.scale) else {}
        if not len(down.cls):
            return found | ({"version": down.version} if len(down.scale) else {})
        scale = scale_of(down, mem)
        everybody = totals(down.gram, down.sums, down.cls, down.n, classes)
        own = self.own(net, data, scale, classes)
        everybody, others = (
            (everybody, everybody.plus(own, -1)) if "sent" in mem else (everybody.plus(own), everybody)
        )
        found["version"] = down.version
        if others.n.sum() < 1:
            return found
        x, y = data.x[:MOST_FITTED], data.y[:MOST_FITTED]
        without = gaussian_head(others)
        features = net["phi"](x, scale).double()
        t = fit_temperature(without.scores(features), y, log_prior(own.n), without.known)
        head = gaussian_head(everybody)
        return found | {
            "weight": (head.weight / t).to(down.gram.dtype),
            "bias": (head.bias / t).to(down.gram.dtype),
            "known": head.known,
            "temperature": down.gram.new_full((1,), t),
        }

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Commons, mem: Tree) -> dict[str, Tensor]:
        """With sums that came since the client's last training: at the temperature that it fitted then."""
        logits = net(x)[1]
        classes = logits.shape[1]
        prior = log_prior(data.counts(classes)).to(logits.dtype)
        head = _newest(down, classes, mem) if len(down.cls) else _head(mem)
        if head is None:
            return dict.fromkeys(self.modes, logits + prior)
        plain = head.scores(net["phi"](x, scale_of(down, mem)))
        local = plain.masked_fill(~data.present(classes), float("-inf"))
        return {
            "clf": logits + plain + prior,
            "prior": plain + prior,
            "gp_all": plain,
            "gp_local": local,
        }


def _newest(down: Commons, classes: int, mem: Tree) -> LinearHead:
    head = gaussian_head(totals(down.gram, down.sums, down.cls, down.n, classes))
    t = float(mem["temperature"]) if "temperature" in mem else 1.0
    return LinearHead(head.weight / t, head.bias / t, head.known).to(down.gram.dtype)


def _head(mem: Any) -> LinearHead | None:
    """The teacher without its prior, as a client remembers it."""
    return LinearHead(mem["weight"], mem["bias"], mem["known"]) if "weight" in mem else None
