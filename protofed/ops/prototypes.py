"""Class sums, means and nearest prototypes. Tensors only; no loop over samples or classes.

Axes: B samples, C classes, D embedding, J prototype rows. What losses use also takes a leading axis of K
clients (ops/losses.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import interpolate

from ..core.data import ClassCounts, LocalData
from ..core.net import Net
from ..core.record import Record
from .distances import pairwise_l2


class Protos(Record):
    """Prototypes of some classes, one row each; a client without a class sends nothing for it."""

    distinct = "cls"
    mean: Float[Tensor, "J D"]
    cls: Int[Tensor, "J"]


def rows(z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Embeddings [B, D] and labels [B]. Feature maps become one row per position, with the labels
    sampled down to the resolution of the map (nearest)."""
    if z.ndim < 4:  # [B, D], or [K, B, D] of clients
        return z, y
    # "nearest" takes the first pixel of each cell, and there lies the centre of what a position of a
    # strided, padded encoder sees; "nearest-exact" would take a pixel half a cell away.
    small = interpolate(y[:, None].to(z.dtype), size=z.shape[-2:], mode="nearest")[:, 0].to(y.dtype)
    return z.movedim(1, -1).reshape(-1, z.shape[1]), small.reshape(-1)


def one_hot(y: Tensor, num_classes: int, dtype: torch.dtype) -> Tensor:
    """[B, C]; a label of −1 gives a row of zeros. Written so that it runs under vmap."""
    return (y[..., None] == torch.arange(num_classes, device=y.device)).to(dtype)


def class_sums(z: Tensor, y: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Sum of embeddings [C, D] and count [C] per class."""
    z, y = rows(z, y)
    hot = one_hot(y, num_classes, z.dtype)
    return hot.mT @ z, hot.sum(-2)


def means(sums: Tensor, count: Tensor) -> Tensor:
    """Means [C, D]; zeros where the count is 0."""
    return sums / count.clamp(min=1)[..., None]


def of_class(table: Tensor, y: Tensor) -> Tensor:
    """The rows of a table [C, D], or the numbers of [C], for labels [B]; also with clients in front."""
    if y.ndim == 1:
        return table[y]
    if table.ndim == y.ndim:
        return table.gather(-1, y)
    return table.gather(-2, y[..., None].expand(*y.shape, table.shape[-1]))


def features(net: Net, data: LocalData) -> tuple[Tensor, Tensor]:
    """Embeddings [N, D] and labels [N] of all samples, in one pass of large chunks."""
    parts = [rows(net.embed(x), y) for x, y in data.chunks()]
    return torch.cat([z for z, _ in parts]), torch.cat([y for _, y in parts])


def class_means(net: Net, data: LocalData, num_classes: int) -> tuple[Tensor, Tensor]:
    """Prototypes [C, D] (Eq. 3 of FedProto) and counts [C] by one pass over the data."""
    parts = [class_sums(net.embed(x), y, num_classes) for x, y in data.chunks()]
    count = torch.stack([n for _, n in parts]).sum(0)
    return means(torch.stack([s for s, _ in parts]).sum(0), count), count


def batch_sums(z: Tensor, y: Tensor, num_classes: int, counted: Tensor | float) -> dict[str, Tensor]:
    """What `loss` returns beside its value to collect prototypes while training; `counted` 0 or 1."""
    sums, count = class_sums(z.detach(), y, num_classes)
    if isinstance(counted, Tensor):  # [], or [K]
        return {"z": sums * counted[..., None, None], "n": count * counted[..., None]}
    return {"z": sums * counted, "n": count * counted}


def collected_means(
    sums: Mapping[str, Tensor], net: Net, data: LocalData, num_classes: int
) -> tuple[Tensor, Tensor]:
    """Prototypes [C, D] and counts [C] from what `batch_sums` collected; where that is nothing (also at a
    client that made no step), by one pass over the data."""
    if "z" in sums:
        return means(sums["z"], sums["n"]), sums["n"]
    return class_means(net, data, num_classes)


def owned(table: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Only the classes with a count: (rows [J, D], class ids [J], counts [J])."""
    cls = torch.nonzero(count > 0)[:, 0]
    return table[cls], cls, count[cls].to(torch.int64)


def supported(count: Tensor, data: LocalData, least: int) -> Tensor:
    """Counts [C] with 0 for the classes of which the client has fewer than `least` samples."""
    return count * (data.counts(len(count)) >= least) if least > 1 else count


def table(mean: Tensor, cls: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Inverse of `owned`: ([C, D] with zeros for unknown classes, bool [C])."""
    full = mean.new_zeros(num_classes, mean.shape[1]).index_copy(0, cls, mean)
    known = torch.zeros(num_classes, dtype=torch.bool, device=cls.device).index_fill(0, cls, True)
    return full, known


def nearest(z: Tensor, protos: Tensor, known: Tensor, fallback: Tensor) -> Tensor:
    """Scores [B, C] = minus the L2 distance (Eq. 4 of FedProto); unknown classes cannot win.

    Where no class is known at all the scores are `fallback`, the classifier's logits.
    """
    return among(-pairwise_l2(z, protos), known, fallback)


def nearest_of_class(scores: Tensor, cls: Tensor, num_classes: int) -> Tensor:
    """Scores [B, J] of prototypes with classes [J] → [B, C]: of each class the highest, −inf without one."""
    low = scores.new_full((len(scores), num_classes), float("-inf"))
    return low.scatter_reduce(1, cls.expand(len(scores), -1), scores, "amax")


def among(scores: Tensor, known: Tensor, fallback: Tensor) -> Tensor:
    """Scores [B, C] with −inf for unknown classes; `fallback` where no class is known at all."""
    return torch.where(known.any(), scores.masked_fill(~known, float("-inf")), fallback)


def prototype_predictions(
    net: Net, x: Tensor, data: ClassCounts, down: Any, mem: dict[str, Tensor]
) -> dict[str, Tensor]:
    """`predict` of methods that download prototypes (fields `mean` and `cls`): `prototype_scores`."""
    z, logits = net(x)
    protos, known = table(down.mean, down.cls, logits.shape[1])
    return prototype_scores(z, logits, protos, known, data.present(logits.shape[1]), mem)


def prototype_scores(
    z: Tensor, logits: Tensor, protos: Tensor, known: Tensor, local: Tensor, mem: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The four prediction modes.

    `clf` classifier; `gp_all` nearest global prototype; `gp_local` the same among the client's own
    classes; `lp` nearest prototype of the client's own (`mem["mean"]`, `mem["n"]`).
    """
    if z.ndim > 2:  # one decision per position of the feature map has no counterpart in the labels
        return {"clf": logits}
    own = mem["n"] > 0 if "n" in mem else torch.zeros_like(known)
    mean = mem["mean"] if "mean" in mem else torch.zeros_like(protos)
    scores = -pairwise_l2(z, protos)
    return {
        "clf": logits,
        "gp_all": among(scores, known, logits),
        "gp_local": among(scores, known & local, logits),
        "lp": nearest(z, mean, own, logits),
    }
