"""Losses shared by methods. All are batch means unless they say otherwise, and run under vmap.

They also carry clients: with a leading axis K on everything (logits [K, B, C], labels [K, B], prototypes
[K, C, D]) the result has it too. So a `loss` made of them can be marked with `carries_clients`. Dense labels
are those of images, so a third axis of logits and embeddings is always that of the clients.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from ..core.data import Batch
from ..core.errors import ConfigError
from .distances import DISTANCES, row_cosine
from .prototypes import class_sums, means, of_class, rows


def ce(logits: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy, mean over the samples (over the pixels that are not void, if dense)."""
    if logits.ndim == 3 and y.ndim == 2 and logits.shape[:2] == y.shape:  # of K clients
        apart = cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
        return apart.view(y.shape).mean(-1)
    if logits.shape[2:] != y.shape[1:]:
        raise ConfigError(
            f"logits of shape {list(logits.shape)} do not fit labels of shape {list(y.shape)}: masks need a "
            "segmentation model such as deeplab, class labels need a classifier"
        )
    if logits.ndim == 2:
        return cross_entropy(logits, y)
    total = cross_entropy(logits, y, ignore_index=-1, reduction="sum")
    return total / (y >= 0).sum().clamp(min=1)


def class_pull(z: Tensor, batch: Batch, protos: Tensor, known: Tensor, distance: str) -> Tensor:
    """Distance [C] between the batch mean of each class and its prototype; 0 where either is missing."""
    sums, count = class_sums(z, batch.y, protos.shape[-2])
    both = known & (count > 0)
    gaps = DISTANCES[distance](means(sums, count), protos)
    return gaps.where(both, gaps.new_zeros(()))


def sample_pull(z: Tensor, batch: Batch, protos: Tensor, known: Tensor, distance: str) -> Tensor:
    """Mean over the batch of the distance of each embedding to the prototype of its class.

    Samples whose class has no prototype count in the denominator with 0, as in the released code,
    whose target for them is the embedding itself. Void positions of dense labels do not count.
    """
    z, y = rows(z, batch.y)
    safe = y.clamp(min=0)
    valid = y >= 0
    gaps = DISTANCES[distance](z, of_class(protos, safe))
    counted = of_class(known, safe) & valid
    return gaps.where(counted, gaps.new_zeros(())).sum(-1) / valid.sum(-1).clamp(min=1)


def cosine_pull(z: Tensor, y: Tensor, protos: Tensor, known: Tensor) -> Tensor:
    """Mean over the batch of 1 − cos(z, prototype of its class); 0 for samples whose class has none."""
    gaps = 1 - row_cosine(z, of_class(protos, y))
    return gaps.where(of_class(known, y), gaps.new_zeros(())).mean(-1)
