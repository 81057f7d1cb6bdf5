"""What methods have in common whose prototypes are clusters: FPL, FedPLVM and FedPLCC.

`ClusteredPrototypes` is not a method, but their frame: a client sends its model and rows of prototypes
with their classes; the server averages the models and clusters the rows of each class by FINCH. A method
adds what its rows are, how it clusters, and its loss (terms of it are in `contrast`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.algorithm import Algorithm, Leg, Needs
from ..core.answer import Replies
from ..core.data import ClassCounts, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree
from ..core.scoring import FEW
from ..core.task import Task, Turn
from .distances import cosine
from .finch import finch_by_class
from .prototypes import among, features, nearest_of_class
from .trees import Average


class Clustered(Record):
    """The model, and prototypes with their classes: several of a class, or none."""

    weights: Tree
    mean: Float[Tensor, "J D"]
    cls: Int[Tensor, "J"]


@dataclass(frozen=True)
class ClusteredPrototypes(Algorithm):
    """Models are averaged, prototypes are clustered class by class."""

    metric: str = option("cosine", "distance of FINCH", choices=("cosine", "euclidean"))
    level: str = option("last", "partition of FINCH", choices=("last", "first"))
    weighting: str = option("samples", "weight of a client's model", choices=("samples", "uniform"))
    stale: str = option("keep", "prototypes of a class absent this round", choices=("keep", "drop"))
    min_count: int = option(1, "fewest samples of a class for a client to send prototypes", low=1)

    @property
    def modes(self) -> tuple[str, ...]:
        return ("clf", "gp_all", "gp_local")

    @property
    def needs(self) -> Needs:
        return Needs(model=True, embedding=True)

    @property
    def legs(self) -> tuple[Leg, ...]:
        return (Leg(down=Clustered, up=Clustered),)

    @property
    def keep(self) -> tuple[str, ...]:
        return ()

    @property
    def weighs_alike(self) -> bool:
        return self.min_count <= FEW

    # server

    def init(self, task: Task, turn: Turn) -> Record:
        return Clustered(task.fresh(0), task.zeros("0 D"), task.zeros("0", int))

    def broadcast(self, state: Any, turn: Turn) -> Any:
        return state

    # client

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Any, mem: Tree) -> dict[str, Tensor]:
        """The classifier, and the class of the prototype with the largest cosine, as in the contrast."""
        z, logits = net(x)
        if z.ndim > 2:  # one decision per position has no counterpart in the labels
            return {"clf": logits}
        classes = logits.shape[1]
        near = nearest_of_class(cosine(z, down.mean) / getattr(self, "tau", 1.0), down.cls, classes)
        known = torch.zeros(classes, dtype=torch.bool, device=z.device).index_fill(0, down.cls, True)
        own = data.present(classes)
        return {
            "clf": logits,
            "gp_all": among(near, known, logits),
            "gp_local": among(near, known & own, logits),
        }

    # parts of hooks

    def embedded(self, net: Net, data: LocalData, classes: int) -> tuple[Tensor, Tensor]:
        """Embeddings [N, D] and labels [N] of the classes of which there are samples enough."""
        z, y = features(net, data)
        enough = data.counts(classes)[y] >= self.min_count
        return z[enough], y[enough]

    def cluster(
        self, x: Tensor, y: Tensor, weights: Tensor | None = None, weighted_centre: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Centres [J, D], classes [J] and weights [J] of the clusters of rows [N, D] within classes [N]."""
        return finch_by_class(x, y, weights, weighted_centre, metric=self.metric, level=self.level)

    # analysis

    def prototypes(self, state: Any) -> tuple[Tensor, Tensor]:
        return state.mean, state.cls


def pooled(replies: Replies, weighting: str, *fields: str) -> tuple[Tree, list[int], list[Tensor]]:
    """The averaged `weights`, the clients, and the named rows of all uploads joined in client order.

    Weights are summed as they arrive; only the rows of all clients are held at a time.
    """
    average = Average()
    rows: dict[int, list[Tensor]] = {}
    for reply in replies:
        average.add(reply.up.weights, reply.n if weighting == "samples" else 1, reply.client)
        rows[reply.client] = [getattr(reply.up, field) for field in fields]
    clients = sorted(rows)
    return average.result(), clients, [torch.cat(column) for column in zip(*(rows[c] for c in clients))]


def renew(stale: str, old: Sequence[Tensor], new: Sequence[Tensor]) -> list[Tensor]:
    """New rows; with stale="keep" also the old rows of classes that have no new one.

    `old` and `new` hold the same columns, the classes [J] first.
    """
    if stale == "drop":
        return list(new)
    absent = torch.isin(old[0], new[0], invert=True)
    return [torch.cat([fresh, kept[absent]]) for fresh, kept in zip(new, old)]
