"""Contrast of embeddings with several global prototypes per class.

Shared by FPL, FedPLVM and FedPLCC. Prototypes are ragged: rows [J, D] with their classes [J], the same
for all clients of a round; J = 0 before the first aggregation. The loss terms return one value per
sample, 0 for a sample whose class has no prototype, so that their batch mean keeps the full
denominator; they run under vmap and have finite gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .prototypes import class_sums, means

CEIL_SLACK = 1e-9  # 0.1·30 is 3.0000000000000004 in floats: its ceiling must be 3


# loss terms


def same_class(y: Tensor, cls: Tensor) -> Tensor:
    """Bool [B, J]: which prototypes (classes [J]) are of the class of each sample (labels [B])."""
    return y[:, None] == cls


def contrast(scores: Tensor, own: Tensor) -> Tensor:
    """−log(Σ_own e^score / Σ_all e^score) per sample: scores [B, J], own bool [B, J] → [B].

    A weight W of a prototype enters its score as + log W.
    """
    # Without an own prototype all of them count as own: the value is 0, the gradient exactly 0, and
    # no row of the logsumexp is −inf throughout, which would give NaN.
    counted = own | ~own.any(1, keepdim=True)
    positive = scores.masked_fill(~counted, float("-inf"))
    return scores.logsumexp(1) - positive.logsumexp(1)


def own_mean(values: Tensor, own: Tensor) -> Tensor:
    """Mean over the own prototypes: values [B, J], own bool [B, J] → [B]."""
    hot = own.to(values.dtype)
    return (values * hot).sum(1) / hot.sum(1).clamp(min=1)


def top_sum(values: Tensor, own: Tensor, k: Tensor) -> Tensor:
    """Sum of the k [B] largest own values per sample: values [B, J], own bool [B, J] → [B]."""
    ranked = values.masked_fill(~own, float("-inf")).sort(1, descending=True).values
    taken = torch.arange(values.shape[1], device=values.device) < torch.minimum(k, own.sum(1))[:, None]
    return ranked.where(taken, ranked.new_zeros(())).sum(1)


# tables by class


def counts(cls: Tensor, num_classes: int) -> Tensor:
    """Number of prototypes [C] per class."""
    return torch.bincount(cls, minlength=num_classes)


def top_counts(cls: Tensor, num_classes: int, phi: float) -> Tensor:
    """⌈φ·|G^c|⌉ [C]: how many prototypes of each class take part; 0 for a class without any."""
    have = counts(cls, num_classes)
    # In float64 whatever the embeddings are, so that the slack is far above the rounding.
    share = (phi * have.to(torch.float64) - CEIL_SLACK).ceil().to(torch.int64)
    return torch.minimum(share.clamp(min=1), have)


def centres(mean: Tensor, cls: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """Unweighted mean of each class's prototypes [C, D] (zeros without any), and bool [C] where known."""
    sums, have = class_sums(mean, cls, num_classes)
    return means(sums, have), have > 0


def class_shares(w: Tensor, cls: Tensor, num_classes: int) -> Tensor:
    """Weights [J] divided by their sum within the class (Eq. 11 of FedPLCC)."""
    return w / w.new_zeros(num_classes).index_add(0, cls, w)[cls]
