"""FedTGP: the server trains the global prototypes, with a margin that follows the clients' prototypes.

Zhang et al., "FedTGP: Trainable Global Prototypes with Adaptive-Margin-Enhanced Contrastive Learning for
Data and Model Heterogeneity in Federated Learning", AAAI 2024, arxiv.org/abs/2401.03230.

Clients train as in FedProto and upload their class means P. The server holds a trainable vector per class
and a small network F; G = F(vectors) are the global prototypes. Each round it trains both for S epochs,
so that G[c] is near the uploads of class c and, by a margin δ, far from all others. Q[c] is the mean of
the uploads of class c.

    client  L = CE + λ · mean_c φ(p_c, G[c])                                                 (Eq. 11)
    server  L = −log( e^{−φ(P, G[c]) − δ} / (e^{−φ(P, G[c]) − δ} + Σ_{c'≠c} e^{−φ(P, G[c'])}) )  (Eq. 10)
            δ = min(max_c min_{c'≠c} ‖Q[c] − Q[c']‖, τ)                                      (Eq. 9)

Departures and readings:
- Eq. 9 prints min_c max_c' and no threshold, against its own prose ("maximum margin … with a threshold
  τ") and Fig. 1; the default is min(max_c min_c' ‖Q[c] − Q[c']‖, τ), which the released code computes.
  τ is a length in the space of embeddings: the printed 100 belongs to 512 dimensions. With the 50 of a
  small network nothing stops the margin there, which drives the prototypes apart, which raises the
  margin; so the default is 10, and preset `paper` has 100.
  `margin=literal` has the printed order, `pairwise_max` the maximum over all pairs; τ caps all of them.
- Eq. 10 sums over the uploads, mini-batches are not mentioned; as in the released code a step takes the
  mean over a shuffled batch of 10. `server_batch=none` takes all uploads at once.
- The expectation over the classes of a client (Eq. 11) is the mean over the classes of the batch. The
  released code compares each embedding, with the mean square and λ = 10: preset `official`.
- Algorithm 1 sends untrained prototypes in round 1, the released code sends none, and so do we;
  `send_initial` has the former. Classes that nobody uploaded have a G all the same.
- The released client reloads its saved model before it collects prototypes, and so uploads those of the
  model before this round's training: `proto_pass=pre`, part of preset `official`.
- Ablations of Tab. 6: `margin=none` (SCL), `margin=fixed` (FM; δ = τ, the value is not printed),
  `process=false` (w/o F).
- The squared distance is clamped before the root: round-off can make it negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.algorithm import HTFLLIB_TRAIN, Algorithm, Leg, Needs, Preset, Ran, View, carries_clients, methods
from ..core.answer import Replies, cat
from ..core.data import Batch, ClassCounts, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree
from ..core.scoring import FEW
from ..core.task import Task, Turn
from ..ops import tgp_server
from ..ops.distances import DISTANCES
from ..ops.losses import ce, class_pull, sample_pull
from ..ops.prototypes import Protos, class_means, class_sums, owned, prototype_predictions, supported, table

HARMLESS = 10.0  # a largest margin that keeps prototypes of small networks from running apart: the default
LOCAL = {"batch_size": 10, "lr": 0.01, "momentum": 0.0, "epochs": 1}


class Server(Record):
    """Server state. The trained tensors never leave it."""

    mean: Float[Tensor, "C D"]  # G
    known: Int[Tensor, "C"]  # 1 once G may be sent
    trained: Tree  # see ops/tgp_server.py
    delta: Float[Tensor, "M"]  # δ of the last round, M = 1


@methods.register("fedtgp")
@dataclass(frozen=True)
class FedTGP(Algorithm):
    """Global prototypes trained at the server by contrastive learning with an adaptive margin."""

    lam: float = option(0.1, "λ, weight of the prototype term (Eq. 11)", low=0)
    distance: str = option("l2", "φ in Eq. 11", choices=tuple(DISTANCES))
    level: str = option(
        "class", "what is compared: batch means, or each embedding", choices=("class", "sample")
    )
    margin: str = option(
        "adaptive",
        "δ: a reading of Eq. 9; fixed at τ (FM); or none (SCL)",
        choices=("adaptive", "pairwise_max", "literal", "fixed", "none"),
    )
    tau: float = option(HARMLESS, "τ, largest margin", low=0)
    process: bool = option(True, "F, two linear layers after the trainable vectors; false: w/o F")
    server_epochs: int = option(100, "S, epochs of server training a round", low=0)
    server_lr: float = option(0.01, "η of server training", above=0)
    server_batch: int | None = option(10, "uploads in a server step; none: all at once", low=1)
    proto_pass: str = option(
        "post", "prototypes of the model after, or before this round's training", choices=("post", "pre")
    )
    min_count: int = option(1, "fewest samples of a class for a client to send its prototype", low=1)
    send_initial: bool = option(False, "send the untrained prototypes in round 1")

    paper = "Zhang et al., AAAI 2024, arXiv:2401.03230"
    single = "trains its prototypes on single uploads"
    modes = ("gp_all", "clf", "gp_local", "lp")
    needs = Needs(embedding=True)
    legs = (Leg(down=Protos, up=Protos),)  # no counts: the paper keeps them private
    presets = {
        "paper": Preset({"tau": 100.0}, LOCAL, "as printed, with the margin of the prose"),
        "official": Preset(
            {"level": "sample", "distance": "mse", "lam": 10.0, "tau": 100.0, "proto_pass": "pre"},
            HTFLLIB_TRAIN,
            "the authors' released code, including its upload of the previous model's prototypes",
        ),
    }

    @property
    def weighs_alike(self) -> bool:
        return self.min_count <= FEW

    # server

    def init(self, task: Task, turn: Turn) -> Server:
        made = tgp_server.init(task.C, task.D, self.process, turn.generator("trainable prototypes"))
        trained = {name: tensor.to(task.device, task.dtype) for name, tensor in made.items()}
        known = task.zeros("C", int) + self.send_initial
        return Server(tgp_server.prototypes(trained).clone(), known, trained, task.zeros("1"))

    def broadcast(self, state: Server, turn: Turn) -> Protos:
        mean, cls, _ = owned(state.mean, state.known)
        return Protos(mean, cls)

    def aggregate(self, state: Server, replies: Replies, turn: Turn) -> Server:
        """Eq. 9, then S epochs on Eq. 10."""
        protos, cls = cat(replies.all(), "mean", "cls")
        if not len(protos):  # nobody has enough samples of any class
            return state
        delta = tgp_server.margin(protos, cls, self.margin, self.tau)
        order = turn.generator("server batches")
        trained = tgp_server.train(
            state.trained, protos, cls, delta, self.server_epochs, self.server_batch, self.server_lr, order
        )
        mean, known = tgp_server.prototypes(trained).clone(), torch.ones_like(state.known)
        return Server(mean, known, trained, torch.full_like(state.delta, delta))

    # client

    def prepare(self, net: Net, data: LocalData, down: Protos, mem: Tree, turn: Turn) -> View:
        protos, known = table(down.mean, down.cls, turn.task.C)
        return {"protos": protos, "known": known}

    def before(
        self, net: Net, data: LocalData, down: Protos, mem: Tree, turn: Turn
    ) -> tuple[Tensor, Tensor] | None:
        return class_means(net, data, turn.task.C) if self.proto_pass == "pre" else None

    @carries_clients
    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        """Eq. 11."""
        z, logits = net(batch.x)
        return ce(logits, batch.y) + self.lam * self._pull(z, batch, view)

    def _pull(self, z: Tensor, batch: Batch, view: View) -> Tensor:
        if self.level == "sample":
            return sample_pull(z, batch, view["protos"], view["known"], self.distance)
        gaps = class_pull(z, batch, view["protos"], view["known"], self.distance)
        _, count = class_sums(z.detach(), batch.y, gaps.shape[-1])
        return gaps.sum(-1) / (count > 0).sum(-1).clamp(min=1)

    def upload(
        self, net: Net, data: LocalData, down: Protos, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Protos, Tree]:
        mean, n = ran.before if self.proto_pass == "pre" else class_means(net, data, turn.task.C)
        rows, cls, _ = owned(mean, supported(n, data, self.min_count))
        return Protos(rows, cls), {"mean": mean, "n": n}

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Protos, mem: Tree) -> dict[str, Tensor]:
        return prototype_predictions(net, x, data, down, mem)

    # analysis

    def prototypes(self, state: Server) -> tuple[Tensor, Tensor]:
        return owned(state.mean, state.known)[:2]

    def remarks(self, state: Server) -> list[str]:
        held = float(state.delta) >= self.tau and self.margin not in ("fixed", "none")
        if not held or self.tau <= HARMLESS:
            return []
        return [
            f"the margin δ stands at its largest value, tau={self.tau:g}: it no longer follows the clients' "
            f"prototypes, but drives them apart; lower tau (default {HARMLESS:g}) or lr"
        ]
