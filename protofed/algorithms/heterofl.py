"""HeteroFL: narrow clients train the leading slices of one wide model.

Diao, Ding and Tarokh, "HeteroFL: Computation and Communication Efficient Federated Learning for
Heterogeneous Clients", ICLR 2021, arxiv.org/abs/2010.01264.

The clients' models are one architecture in several widths, say
`small_cnn:width=8|small_cnn:width=16|small_cnn:width=32`. The server holds the widest; each client
downloads the first entries along every axis of every tensor, as many as its own model has, and the
server averages each entry over the clients whose slice contains it.

    client  L = CE over the slice w_k
    server  w[e] ← mean of w_k[e] over the clients k whose slice contains the entry e

Masking trick (`mask`): logits of classes that a client has no sample of are set to 0 in its
cross-entropy, and its rows of the last layer for these classes are left out of the average.

Departures and choices:
- The widths come from the clients' models rather than from a rate, so parts that do not scale with
  the width (embedding, head) are shared by all.
- No Scaler layers, and BatchNorm statistics are averaged like weights, not recomputed ("static").
- Entries that no client of the round holds keep their value.
- `clf_local` predicts among the client's own classes (the paper's "local" accuracy) and is the main
  mode: with `mask` a client's test samples were never trained against the other classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from ..core.algorithm import Algorithm, Leg, Ran, View, methods
from ..core.answer import Replies
from ..core.data import Batch, ClassCounts, LocalData
from ..core.errors import ConfigError
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree, Weights
from ..core.task import Task, Turn
from ..ops.losses import ce
from ..ops.slices import SliceAverage, cut, misfit


class Slice(Record):
    """A trained slice and the classes that its client has."""

    distinct = "cls"
    weights: Tree
    cls: Int[Tensor, "J"]


@methods.register("heterofl")
@dataclass(frozen=True)
class HeteroFL(Algorithm):
    """Average of nested models of different widths."""

    mask: bool = option(True, "leave classes that a client lacks out of its loss and of its last layer")
    weighting: str = option("uniform", "weight of a client in the average", choices=("uniform", "samples"))

    paper = "Diao et al., ICLR 2021, arXiv:2010.01264"
    single = "averages slices of different sizes"
    modes = ("clf_local", "clf")
    legs = (Leg(down=Weights, up=Slice),)
    keep = ()

    # server

    def init(self, task: Task, turn: Turn) -> Weights:
        widest = max(range(len(task.groups)), key=task.parameter_count)
        wide = task.fresh(widest)
        for number, group in enumerate(task.groups):
            problem = misfit(task.live(number).named(), wide)
            if problem:
                example = ", such as small_cnn:width=8|small_cnn:width=16" if group.written else ""
                raise ConfigError(
                    f"heterofl: model {group.name} is no slice of {task.groups[widest].name}: {problem}; "
                    f"give one family in several widths{example}"
                )
        return Weights(wide)

    def broadcast(self, state: Weights, turn: Turn) -> Weights:
        return Weights(cut(state.weights, turn.task.live(turn.group).named()))

    def aggregate(self, state: Weights, replies: Replies, turn: Turn) -> Weights:
        average, last = SliceAverage(state.weights), _last_layer(turn.task)
        for reply in replies:
            own = turn.task.zeros("C").index_fill(0, reply.up.cls, 1.0)
            weight = reply.n if self.weighting == "samples" else 1
            average.add(reply.up.weights, weight, reply.client, dict.fromkeys(last, own) if self.mask else {})
        return Weights(average.result())

    # client

    def prepare(self, net: Net, data: LocalData, down: Weights, mem: Tree, turn: Turn) -> View:
        return {"own": data.present(turn.task.C)}

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        _, logits = net(batch.x)
        return ce(_masked(logits, view["own"], 0.0) if self.mask else logits, batch.y)

    def upload(
        self, net: Net, data: LocalData, down: Weights, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Slice, Tree]:
        return Slice(net.tensors(), torch.nonzero(data.present(turn.task.C))[:, 0]), mem

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Weights, mem: Tree) -> dict[str, Tensor]:
        _, logits = net(x)
        own = data.present(logits.shape[1])
        return {"clf": logits, "clf_local": _masked(logits, own, float("-inf"))}


def _masked(logits: Tensor, own: Tensor, value: float) -> Tensor:
    """Logits [B, C, …] with a value in the place of the classes that are not `own` [C]."""
    return logits.masked_fill(~own.reshape(-1, *[1] * (logits.ndim - 2)), value)


def _last_layer(task: Task) -> list[str]:
    """Names of the parameters of the last layer that have one row per class."""
    named, parameters = task.live(0).named(), task.names(0).parameters
    heads = [n for n in parameters if n.startswith("model.head.")]  # whatever stands last in the module
    layer = (heads or parameters)[-1].rpartition(".")[0]
    return [n for n in parameters if n.rpartition(".")[0] == layer and named[n].shape[:1] == (task.C,)]
