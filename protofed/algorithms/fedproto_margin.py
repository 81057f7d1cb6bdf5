"""ProtoMargin: FedAvg whose weights come from margins between class prototypes.

Michieli and Ozay, "Prototype Guided Federated Learning of Visual Feature Representations",
2021, arxiv.org/abs/2105.08982. Its authors call it FedProto too.

A client trains the server's model by cross-entropy. It takes its prototypes, scaled to [0, 1] over the
channels, before and after: their margin is the LPM (Eq. 8). The server compares them with the aggregate
prototypes of the round before: the APM (Eq. 9). Both are summed over classes, squashed and normalised
over the clients, and averaged. Clients are drawn in proportion to their sample counts, and stragglers'
partial work is used.

    margin  μ[c] = (d⁻ − d⁺) / (d⁻ + d⁺),  d⁺ distance to the same class, d⁻ mean to the others   (Eq. 5–7)
    client  L = CE
    server  a_k = ½ · σ(Σ_c LPM_k) / Σ_j σ(Σ_c LPM_j) + ½ · the same of the APM                   (Eq. 11–13)
            w ← Σ_k a_k · w_k                                                                     (Eq. 14)

Departures, and what the paper leaves open:
- "t−1" of the LPM is read as the same round before training, so a client needs no old state.
- The paper starts with aggregate prototypes of zero; here the first round's uploads count at once.
  Until then clients weigh by their samples (Eq. 13, t = 0), so also where all aggregates are zero.
- A class that nobody had in the round before is left out of the APM; `carry` keeps its last aggregate.
- Higher margins weigh more, as the formulas say; one sentence of the paper reads the other way.
- `dplus_only`: read as Eq. 11 with d⁺ in place of the margin, v = σ(Σ d⁺): a client that moved far weighs
  more, as the paper says of its attention ("as prototypes … deviate …, higher attention is applied").
  `dplus=lowers` has the other sign, by which displacement would be a bad margin.
- Dense labels: the background is a class, else clients with one object would have no margin.

Rows of the paper's ablation (Table 3): `attention=fairness tolerate=false`, the same with the setting
`sampling=uniform`, `attention=fairness`, `tolerate=false`, `attention=dplus_only`, `apm_only`,
`lpm_only`; FedAvg + toleration is `fedavg` with `tolerate=true`. The paper draws the clients of all
methods alike: give the others `sampling=size`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.algorithm import Algorithm, Leg, Needs, Preset, Ran, View, methods
from ..core.answer import Replies, Reply
from ..core.data import Batch, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree, Weights
from ..core.task import Task, Turn
from ..ops.losses import ce
from ..ops.margins import attention_weights, displacement, minmax, spm
from ..ops.prototypes import class_means, means
from ..ops.trees import Average

ATTENTION = ("both", "apm_only", "lpm_only", "dplus_only", "fairness")


class Margins(Record):
    """Upload. Payload: the model, C × D prototypes and C margins; the counts are meta."""

    weights: Tree
    mean: Float[Tensor, "C D"]  # after training, scaled; zeros where n is 0
    n: Int[Tensor, "C"]
    local: Float[Tensor, "C"]  # LPM of each class (dplus_only: ±d⁺)


class Aggregate(Record):
    """Server state. `attention` is the last round's a[k] of the clients in `clients`."""

    weights: Tree
    mean: Float[Tensor, "C D"]  # p̂_agg of the last round
    n: Int[Tensor, "C"]  # samples behind it; 0 = none
    attention: Float[Tensor, "K"]
    clients: Int[Tensor, "K"]


@methods.register("fedproto_margin")
@dataclass(frozen=True)
class FedProtoMargin(Algorithm):
    """Weights of the average from margins of prototypes, on the client and against the aggregate."""

    attention: str = option("both", "what weighs a client in the average", choices=ATTENTION)
    dplus: str = option(
        "raises", "effect of displacement on the weight (dplus_only)", choices=("raises", "lowers")
    )
    tolerate: bool = option(True, "use the partial work of stragglers instead of dropping them")
    carry: bool = option(False, "keep the aggregate prototype of a class that nobody had this round")
    background: bool = option(True, "dense labels: class 0 takes part in the margins")

    paper = "Michieli and Ozay, 2021, arXiv:2105.08982"
    single = "weighs each client by its margins"
    sampling = "size"
    needs = Needs(model=True, embedding=True)
    legs = (Leg(down=Weights, up=Margins),)
    keep = ()
    presets = {
        "paper": Preset(note="as printed; the local training of Table 1 is in the other presets"),
        "classification": Preset(
            train={"epochs": 20, "batch_size": 10, "lr": 0.01, "momentum": 0.0},
            note="Table 1, Synthetic and MNIST (FEMNIST: lr 0.001, CelebA: lr 0.1)",
        ),
        "segmentation": Preset(
            train={
                "epochs": 2,
                "batch_size": 8,
                "optimizer": "adam",
                "lr": 1e-4,
                "weight_decay": 4e-5,
                "schedule": "poly",
            },
            note="Table 1, Pascal; the batch size is ours",
        ),
    }

    @property
    def partial(self) -> str:
        return "use" if self.tolerate else "drop"

    # server

    def init(self, task: Task, turn: Turn) -> Aggregate:
        mean, n = task.zeros("C D"), task.zeros("C", int)
        return Aggregate(task.fresh(0), mean, n, task.zeros("0"), task.zeros("0", int))

    def broadcast(self, state: Aggregate, turn: Turn) -> Weights:
        return Weights(state.weights)

    def aggregate(self, state: Aggregate, replies: Replies, turn: Turn) -> Aggregate:
        """Eq. 14: Σ_k a[k] W_k; Eq. 10: p̂_agg[c] = Σ_k n_k[c] p̂_k[c] / Σ_k n_k[c]."""
        got = replies.all()  # not streamed: a[k] needs the margins of all
        a = self._attention(state, got)
        average = Average()
        for weight, reply in zip(a.tolist(), got, strict=True):
            average.add(reply.up.weights, weight, reply.client)
        n = torch.stack([reply.up.n for reply in got]).sum(0)
        mean = means(torch.stack([r.up.mean * r.up.n[:, None] for r in got]).sum(0), n)
        if self.carry:
            mean = mean.where(n[:, None] > 0, state.mean)
            n = n.where(n > 0, state.n)
        clients = torch.tensor([reply.client for reply in got], device=n.device)
        return Aggregate(average.result(), mean, n, a, clients)

    def _attention(self, state: Aggregate, got: list[Reply]) -> Tensor:
        """Eq. 13: the weights a [K]."""
        if self.attention == "fairness":
            return state.mean.new_full((len(got),), 1 / len(got))
        if not state.mean.any():
            samples = torch.tensor([reply.n for reply in got]).to(state.mean)
            return samples / samples.sum()
        local = torch.stack([reply.up.local for reply in got])
        mean = torch.stack([reply.up.mean for reply in got])
        shared = torch.stack([reply.up.n > 0 for reply in got]) & (state.n > 0)
        remote = self._margin(mean, state.mean.expand_as(mean), shared)
        chosen = {"apm_only": [remote], "lpm_only": [local]}.get(self.attention, [local, remote])
        return torch.stack([attention_weights(margins.sum(1)) for margins in chosen]).mean(0)

    def client_weights(self, state: Aggregate, samples: Mapping[int, int]) -> dict[int, float]:
        """a^t[k] of the last round."""
        return dict(zip(state.clients.tolist(), state.attention.tolist(), strict=True))

    def _margin(self, one: Tensor, two: Tensor, shared: Tensor) -> Tensor:
        """μ (Eq. 7), or ±d⁺ for dplus_only: [..., C]."""
        if self.attention != "dplus_only":
            return spm(one, two, shared)
        distance = displacement(one, two, shared)[0]
        return distance if self.dplus == "raises" else -distance

    # client

    def before(self, net: Net, data: LocalData, down: Weights, mem: Tree, turn: Turn) -> Tensor:
        return self._prototypes(net, data, turn)[0]

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        return ce(net(batch.x)[1], batch.y)

    def upload(
        self, net: Net, data: LocalData, down: Weights, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Margins, Tree]:
        mean, n = self._prototypes(net, data, turn)
        return Margins(net.tensors(), mean, n, self._margin(ran.before, mean, n > 0)), mem

    def _prototypes(self, net: Net, data: LocalData, turn: Turn) -> tuple[Tensor, Tensor]:
        """Scaled class means (Eq. 4) and counts; zeros for classes that take no part."""
        mean, n = class_means(net, data, turn.task.C)
        if data.y.ndim > 1 and not self.background:
            n[0] = 0
        return minmax(mean).where(n[:, None] > 0, 0.0), n.to(torch.int64)
