"""FedProc: FedAvg whose clients contrast their embeddings with global prototypes.

Mu et al., "FedProc: Prototypical Contrastive Federated Learning on Non-IID Data", 2021,
arxiv.org/abs/2109.12273; Future Generation Computer Systems 143, 2023.

Clients contrast an embedding z with all global prototypes P. The share α of this term falls over the
rounds: the embedding is shaped first, the classifier later. They upload weights and class means; the
server averages the weights by samples and the means by class counts.

    client  L = α · L_gpc + (1 − α) · CE,   α = 1 − t/T
            L_gpc = −log( e^{cos(z, P_y)/τ} / Σ_c e^{cos(z, P_c)/τ} )
    server  w ← Σ_k (n_k / n) · w_k,   P_c = Σ_k (n_kc / N_c) · p_kc

Departures and readings (formulas confirmed in the authors' released code):
- t counts from 0, as in that code: α is 1 in the first round and 1/T in the last. T is the number of
  rounds of the run; the released code has T = 100 fixed, and α = 0 afterwards.
- Round 1 has no prototypes and is plain cross-entropy, as in that code. We treat every sample whose class
  has no prototype in this way. The released code puts a zero prototype for such classes instead.
- No temperature in paper and released code (presets: τ = 1), so that the contrast hardly tells classes
  apart. The default is the 0.07 of FedPLVM and FedPLCC.
- The released network has a projection of two layers before the embedding, and feeds the *normalised*
  embedding to its classifier. Here the network is the user's; only the loss normalises.
- Class means come from the client's trained model in eval mode, over the data without augmentation.
- Class absent from a round: its prototype stays, as in the released code.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..core.algorithm import Algorithm, Leg, Needs, Preset, Ran, View, methods
from ..core.answer import Replies
from ..core.averages import SAMPLES, Averaged
from ..core.data import Batch, ClassCounts, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree
from ..core.task import Task, Turn
from ..ops.distances import cosine
from ..ops.prototypes import class_means, owned, prototype_predictions, table
from ..ops.trees import Average


class Model(Record):
    """Weights and prototypes, both ways."""

    distinct = "cls"
    weights: Tree
    mean: Float[Tensor, "J D"]
    cls: Int[Tensor, "J"]
    n: Int[Tensor, "J"]  # samples behind each row


class Global(Record):
    """Server state."""

    weights: Tree
    mean: Float[Tensor, "C D"]
    known: Int[Tensor, "C"]  # samples behind the prototype; 0 = no prototype yet


@methods.register("fedproc")
@dataclass(frozen=True)
class FedProc(Algorithm):
    """Prototypical contrast first, cross-entropy later, on averaged weights."""

    horizon: int | None = option(None, "T in α = 1 − t/T; none: the rounds of the run", low=1)
    tau: float = option(0.07, "τ, temperature of the cosines", above=0)

    paper = "Mu et al., FGCS 2023, arXiv:2109.12273"
    modes = ("clf", "gp_all", "gp_local", "lp")
    needs = Needs(model=True, dense=False)
    averages = (Averaged("weights", weight=SAMPLES), Averaged("mean", by="cls", weight="n", embedded=True))
    legs = (Leg(down=Model, up=Model, averages=averages),)
    keep = ()
    presets = {
        "paper": Preset({"tau": 1.0}, note="T as long as the run"),
        "official": Preset(
            {"horizon": 100, "tau": 1.0},
            {"batch_size": 64, "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-5, "epochs": 10},
            "the defaults of the authors' released code",
        ),
    }

    # server

    def init(self, task: Task, turn: Turn) -> Global:
        return Global(task.fresh(0), task.zeros("C D"), task.zeros("C", int))

    def broadcast(self, state: Global, turn: Turn) -> Model:
        return Model(state.weights, *owned(state.mean, state.known))

    def aggregate(self, state: Global, replies: Replies, turn: Turn) -> Global:
        """Weights by the clients' samples; prototypes by samples of the class."""
        average = Average()
        total, count = torch.zeros_like(state.mean), torch.zeros_like(state.known)
        for reply in replies:
            average.add(reply.up.weights, reply.n, reply.client)
            total.index_add_(0, reply.up.cls, reply.up.mean * reply.up.n[:, None])
            count.index_add_(0, reply.up.cls, reply.up.n)
        fresh = total / count.clamp(min=1)[:, None]
        mean = torch.where(count[:, None] > 0, fresh, state.mean)
        return Global(average.result(), mean, torch.where(count > 0, count, state.known))

    # client

    def prepare(self, net: Net, data: LocalData, down: Model, mem: Tree, turn: Turn) -> View:
        protos, known = table(down.mean, down.cls, turn.task.C)
        alpha = max(0.0, 1 - (turn.round - 1) / (self.horizon or turn.task.rounds))
        return {"protos": protos, "known": known, "alpha": protos.new_tensor(alpha)}

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        """α L_gpc + (1 − α) L_ce per sample; L_ce alone where the class has no prototype."""
        z, logits = net(batch.x)
        plain = cross_entropy(logits, batch.y, reduction="none")
        # An unknown class has no share in the softmax; −1e9 and not −∞, which times α = 0 is NaN.
        scores = torch.where(view["known"], cosine(z, view["protos"]) / self.tau, -1e9)
        contrast = cross_entropy(scores, batch.y, reduction="none")
        alpha = view["alpha"] * view["known"][batch.y]
        mixed: Tensor = alpha * contrast + (1 - alpha) * plain
        return mixed.mean()

    def upload(
        self, net: Net, data: LocalData, down: Model, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Model, Tree]:
        mean, n = class_means(net, data, turn.task.C)
        return Model(net.tensors(), *owned(mean, n)), {"mean": mean, "n": n}

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Model, mem: Tree) -> dict[str, Tensor]:
        return prototype_predictions(net, x, data, down, mem)

    # analysis

    def prototypes(self, state: Global) -> tuple[Tensor, Tensor]:
        return owned(state.mean, state.known)[:2]
