"""Anchors: every class has a fixed point in the embedding space, from the seed. Nothing is ever sent.

A control for prototype methods, not a method of a paper: clients whose embeddings are pulled to common
fixed points agree on where classes lie without exchanging anything. What a prototype method reaches
beyond it, its prototypes carry; what it does not, a seed would have given. Papers with fixed or slowly
moving anchors are FedSA and AlignFed; a simplex as the fixed target is neural collapse's (Papyan, Han
and Donoho, PNAS 2020).

    L = CE + λ · d(h, r · A_y)        A: rows of a simplex, orthonormal rows, or random directions

`gp_all` and `gp_local` are the nearest anchors, so that predictions compare with those of FedProto.

Choices:
- λ and d are FedProto's defaults; r = 5 is about as long as the embeddings of a small trained network. A
  simplex needs at least as many dimensions as classes; `kind=random` does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..core.algorithm import Algorithm, Needs, Ran, View, carries_clients, methods
from ..core.data import Batch, ClassCounts, LocalData
from ..core.errors import ConfigError
from ..core.net import Net
from ..core.options import option
from ..core.record import Nothing, Tree
from ..core.rng import torch_generator
from ..core.task import Task, Turn
from ..ops import sphere
from ..ops.distances import DISTANCES
from ..ops.losses import ce, sample_pull
from ..ops.prototypes import class_means, prototype_scores

KINDS = ("simplex", "orthogonal", "random")


@methods.register("anchors")
@dataclass(frozen=True)
class Anchors(Algorithm):
    """Fixed common targets for the embeddings: a control that sends nothing."""

    lam: float = option(0.1, "λ, weight of the anchor term", low=0)
    kind: str = option("simplex", "how the anchors lie", choices=KINDS)
    radius: float = option(5.0, "r, length of the anchors", above=0)
    distance: str = option("l2", "d", choices=tuple(DISTANCES))

    paper = "a control of ours; a simplex as target: Papyan, Han and Donoho, PNAS 2020"
    modes = ("clf", "gp_all", "gp_local", "lp")
    needs = Needs(embedding=True, dense=False)

    def init(self, task: Task, turn: Turn) -> Nothing:
        if self.kind != "random" and task.D < task.C:
            raise ConfigError(
                f"anchors: {task.C} classes do not fit {self.kind} into {task.D} dimensions; use "
                "kind=random, or models with larger embeddings"
            )
        return Nothing()

    def targets(self, task: Task) -> Tensor:
        """r · A [C, D], the same for all clients."""
        generator = torch_generator(task.seed, "anchors")
        if self.kind == "random":
            rows = normalize(torch.randn(task.C, task.D, generator=generator, dtype=torch.float64))
        else:
            rows = getattr(sphere, self.kind)(task.C, task.D, generator)
        return (self.radius * rows).to(task.device, task.dtype)

    # client

    def prepare(self, net: Net, data: LocalData, down: Nothing, mem: Tree, turn: Turn) -> View:
        targets = self.targets(turn.task)
        return {"anchors": targets, "known": torch.ones_like(targets[:, 0], dtype=torch.bool)}

    @carries_clients
    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        z, logits = net(batch.x)
        return ce(logits, batch.y) + self.lam * sample_pull(
            z, batch, view["anchors"], view["known"], self.distance
        )

    def upload(
        self, net: Net, data: LocalData, down: Nothing, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Nothing, Tree]:
        mean, n = class_means(net, data, turn.task.C)
        return Nothing(), {"mean": mean, "n": n, "anchors": ran.view["anchors"]}

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Nothing, mem: Tree) -> dict[str, Tensor]:
        """A client that never trained has kept no anchors: its classifier stands in."""
        z, logits = net(x)
        targets = mem.get("anchors", z.new_zeros(logits.shape[1], z.shape[1]))
        known = torch.full_like(targets[:, 0], "anchors" in mem, dtype=torch.bool)
        return prototype_scores(z, logits, targets, known, data.present(logits.shape[1]), mem)
