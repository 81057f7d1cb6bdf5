"""FedORGP: the server trains global prototypes that are orthogonal to those of other classes.

Guo et al., "FedORGP: Guiding Heterogeneous Federated Learning with Orthogonality Regularization on
Global Prototypes", 2025, arxiv.org/abs/2502.16119.

As in FedTGP the server holds a trainable vector P_c for each class; here it is drawn to the direction of
the uploads p_kc of its class and away, at a right angle, from those of all others. Clients compare
directions too.

    client  L = CE + λ_c · (1 − cos(h, P_y))
    server  L = λ_s · (1 − cos(p_kc, P_c)) + γ · mean_{c'≠c} |cos(p_kc, P_c')|

Departures and readings:
- The vectors are trained as they are, without a network behind them, by SGD over shuffled batches of the
  uploads, as FedTGP does it; epochs, batch and learning rate of the server are ours.
- λ_c is 1: a cosine distance is at most 2, so a weight of 1 makes it as large as the cross-entropy. The
  published 100 is preset `paper`; γ = 10 and λ_s = 1 are as published.
- Only classes that somebody has uploaded so far are sent, and pushed apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.algorithm import Preset, View, carries_clients, methods
from ..core.answer import Replies
from ..core.data import Batch
from ..core.net import Net
from ..core.optim import Opt, Stepper
from ..core.options import option
from ..core.task import Task, Turn
from ..ops.distances import cosine
from ..ops.exchange import KnownPrototypes, PrototypeExchange, uploaded
from ..ops.losses import ce, cosine_pull
from ..ops.prototypes import one_hot


@methods.register("fedorgp")
@dataclass(frozen=True)
class FedORGP(PrototypeExchange):
    """Global prototypes trained at the server to be orthogonal."""

    lam: float = option(1.0, "λ_c, weight of the cosine distance at the clients", low=0)
    lam_server: float = option(1.0, "λ_s, weight of the attraction at the server", low=0)
    gamma: float = option(10.0, "γ, weight of the orthogonality at the server", low=0)
    server_epochs: int = option(100, "passes over the uploads a round", low=0)
    server_lr: float = option(0.1, "learning rate of the prototypes", above=0)
    server_batch: int = option(10, "uploads in a server step", low=1)

    paper = "Guo et al., 2025, arXiv:2502.16119"
    single = "trains its prototypes on single uploads"
    presets = {"paper": Preset({"lam": 100.0}, note="weights as published; the server's training is ours")}

    # server

    def init(self, task: Task, turn: Turn) -> KnownPrototypes:
        drawn = torch.randn(task.C, task.D, generator=turn.generator("prototypes"))
        return KnownPrototypes(drawn.to(task.zeros("C D")), task.zeros("C", int))

    def aggregate(self, state: KnownPrototypes, replies: Replies, turn: Turn) -> KnownPrototypes:
        mean, cls = uploaded(replies)
        known = (state.known + torch.bincount(cls, minlength=len(state.known))).clamp(max=1)
        protos = state.mean.clone().requires_grad_()
        stepper = Stepper(["protos"], {"": Opt(self.server_lr, momentum=0.0)})
        draws = turn.generator("server batches")
        with torch.enable_grad():
            for _ in range(self.server_epochs if len(mean) else 0):
                order = torch.randperm(len(mean), generator=draws).to(mean.device)
                for some in torch.split(order, self.server_batch):
                    loss = self.server_loss(mean[some], cls[some], protos, known > 0)
                    stepper.step([protos], torch.autograd.grad(loss, [protos]))
        return KnownPrototypes(protos.detach(), known)

    def server_loss(self, mean: Tensor, cls: Tensor, protos: Tensor, known: Tensor) -> Tensor:
        """Mean over the uploads [J, D] of attraction and orthogonality."""
        cosines = cosine(mean, protos)
        own = one_hot(cls, len(protos), mean.dtype)
        other = (1 - own) * known
        apart = (cosines.abs() * other).sum(1) / other.sum(1).clamp(min=1)
        loss = self.lam_server * (1 - (cosines * own).sum(1)) + self.gamma * apart
        return loss.mean()

    # client

    @carries_clients
    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        z, logits = net(batch.x)
        return ce(logits, batch.y) + self.lam * cosine_pull(z, batch.y, view["protos"], view["known"])
