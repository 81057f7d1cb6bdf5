"""Measures that the papers report beside accuracy, as functions of tensors.

Prototypes: AMM (*Prototype Guided Federated Learning*, ProtoMargin). Features: MMD and FFD (ProtoMargin).
Training: rounds to converge. Segmentation: confusion, mIoU. Clients: fairness numbers.

Accuracies are in percent, as everywhere in the results.

Departures: AMM as printed is degenerate (a distance of a prototype to itself makes every ratio 1) and
is read as the mean distance between classes. ProtoMargin does not name the kernel of its MMD.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


def amm(prototypes: Tensor) -> float:
    """Mean distance from a class to the other classes, over prototypes [C,D] that are not normalised.

    Points 0, 1, 4 on a line have the distances 1, 4, 3: mean 8/3. NaN for fewer than two classes.
    """
    c = len(prototypes)
    return float(_distances(prototypes).sum()) / (c * (c - 1)) if c > 1 else math.nan


def _distances(rows: Tensor) -> Tensor:
    return torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")


def mmd(x: Tensor, y: Tensor) -> float:
    """Maximum mean discrepancy of samples x [N,D] and y [M,D]: the root of the biased estimate.

    Gaussian kernel exp(−d²/2σ²), σ = median distance of the pairs of pooled samples that differ. For
    x = {0} and y = {1}: σ = 1, MMD² = 1 + 1 − 2e^{−1/2}, MMD = 0.887096. Holds (N+M)² numbers in memory.
    """
    n = len(x)
    squared = _squared_distances(torch.cat([x, y]).double())
    differ = squared[squared > 0]
    if not len(differ):
        return 0.0
    kernel = (-squared / (2 * differ.median())).exp()
    estimate = kernel[:n, :n].mean() + kernel[n:, n:].mean() - 2 * kernel[:n, n:].mean()
    return float(estimate.clamp(min=0).sqrt())


def _squared_distances(rows: Tensor) -> Tensor:
    """By a matrix product; what may be round-off is set to 0, so that equal rows are at distance 0."""
    norms = rows.square().sum(1)
    squared = norms[:, None] + norms[None] - 2 * rows @ rows.T
    return squared.where(squared > 1e-12 * norms.max(), 0.0).fill_diagonal_(0.0)


def ffd(mmd_a: float, mmd_b: float) -> float:
    """Federated feature discrepancy: by how many percent method A lowers the MMD of baseline B.

    >>> ffd(3, 4)
    25.0
    """
    return 100 * (mmd_b - mmd_a) / mmd_b


def rounds_to_converge(accuracies: Sequence[float], window: int = 5, tolerance: float = 0.5) -> int | None:
    """First round (from 1) whose moving average over `window` rounds is within `tolerance` of its maximum.

    Averages look back and need a full window: `None` for shorter runs, and if a value is NaN.

    >>> rounds_to_converge([0, 10, 80, 90, 90, 90, 90, 90, 90])
    8
    """
    if len(accuracies) < window:
        return None
    average = torch.tensor(accuracies, dtype=torch.float64).unfold(0, window, 1).mean(1)
    # A hair more than the tolerance, so that round-off does not decide the boundary.
    near = average >= average.max() - tolerance - 1e-9
    return int(near.nonzero()[0]) + window if near.any() else None


def confusion_matrix(predicted: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Counts [C,C], rows truth, columns prediction; negative labels are void. Add matrices to pool them."""
    valid = labels >= 0
    pairs = labels[valid] * classes + predicted[valid]
    return torch.bincount(pairs, minlength=classes**2).reshape(classes, classes)


def miou(confusion: Tensor, background: bool = True) -> float:
    """Mean over classes of TP/(TP+FP+FN), in percent; NaN without any pixel.

    Classes that are neither present nor predicted are skipped; predicted but absent ones count as 0. Without
    `background` class 0 has no part in the mean; its pixels still count as misses of the others.
    """
    counts = confusion.double()
    hit = counts.diagonal()
    union = counts.sum(0) + counts.sum(1) - hit
    first = 0 if background else 1
    return float(100 * (hit / union)[first:][union[first:] > 0].mean())


class Fairness(NamedTuple):
    """How unequal the clients fare."""

    std: float
    worst: float
    worst10: float
    gini: float


def fairness(accuracies: Tensor) -> Fairness:
    """Spread of the accuracies [K] of the clients: std (ddof 0), minimum, mean of the worst tenth, Gini.

    The worst tenth has ⌈K/10⌉ clients. Gini = Σ_ij|a_i − a_j|/(2K²·mean): 0 if all are equal. For
    20, 40, 90: mean 50, std √(2600/3) = 29.4392, Gini 2·(20+70+50)/(2·9·50) = 0.311111.
    """
    ordered = accuracies.double().sort().values
    k, total = len(ordered), float(ordered.sum())
    # The same double sum from the ranks: Σ_i (2i − K − 1)·a_(i), without K² differences.
    ranks = torch.arange(1, k + 1, dtype=torch.float64) * 2 - k - 1
    gini = float((ranks * ordered).sum()) / (k * total) if total > 0 else 0.0
    tenth = ordered[: math.ceil(k / 10)]
    return Fairness(float(ordered.std(correction=0)), float(ordered[0]), float(tenth.mean()), gini)
