"""How much an attack on privacy found out: of reconstructions, of membership, and of noise that was promised.

psnr            10 · log10(peak² / mean squared error), in dB: images
scaled_error    mean of squared errors over variances: 1 is as good as always guessing the mean
auc             probability that a member scores higher than a stranger, ties half
tpr_at          members found while at most a share of the strangers is taken for members
epsilon_found   ε that the counts of a distinguishing test prove, at a confidence

Sources: Carlini et al., "Membership Inference Attacks From First Principles", S&P 2022 (TPR at a low FPR);
Jagielski, Ullman, Oprea, "Auditing Differentially Private Machine Learning", NeurIPS 2020 (ε from counts).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def psnr(found: Tensor, truth: Tensor, peak: float) -> Tensor:
    """[…] of images […, channels, H, W], both broadcast; `peak`: highest less lowest value of a pixel."""
    error = (found - truth).square().flatten(-3).mean(-1)
    return 10 * torch.log10(peak**2 / error)


def scaled_error(found: Tensor, truth: Tensor, variance: Tensor, axes: int) -> Tensor:
    """[…] over the last `axes`, of which `variance` has the shape; inputs that never vary are left out."""
    varies = variance > 0
    ratio = torch.where(varies, (found - truth).square() / variance.where(varies, torch.ones(())), 0.0)
    return ratio.flatten(-axes).sum(-1) / varies.sum().clamp(min=1)


def auc(members: Tensor, others: Tensor) -> float:
    """Area under the ROC curve of scores [M] against [N]; 0.5: the attack knows nothing. NaN without both."""
    if not len(members) or not len(others):
        return math.nan
    ordered = others.sort().values
    below = torch.searchsorted(ordered, members)
    not_above = torch.searchsorted(ordered, members, right=True)
    return float((below + not_above).double().mean() / (2 * len(others)))


def tpr_at(members: Tensor, others: Tensor, fpr: float) -> float:
    """Share of the members above a threshold that at most `fpr` of the others exceed; NaN without both."""
    if not len(members) or not len(others):
        return math.nan
    allowed = math.floor(fpr * len(others))
    threshold = others.sort(descending=True).values[allowed]
    return float((members > threshold).double().mean())


def epsilon_found(hits: int, members: int, wrong: int, others: int, delta: float, sure: float) -> float:
    """The least ε of noise that lets a test say yes to `hits` of so many draws with a unit, and to `wrong` of
    so many without it: ln((TPR − δ) / FPR), or the same of saying no. Both shares stand at the ends of their
    Clopper–Pearson intervals, so that the result is right with probability `sure`."""
    each = (1 - sure) / 2  # of two ends, each may be wrong
    called = _log_ratio(_low(hits, members, each) - delta, _high(wrong, others, each))
    refused = _log_ratio(_low(others - wrong, others, each) - delta, _high(members - hits, members, each))
    return max(0.0, called, refused)


def _log_ratio(above: float, below: float) -> float:
    return math.log(above / below) if above > 0 and below > 0 else 0.0


def _low(count: int, of: int, wrong: float) -> float:
    from scipy.stats import beta

    return float(beta.ppf(wrong, count, of - count + 1)) if count else 0.0


def _high(count: int, of: int, wrong: float) -> float:
    from scipy.stats import beta

    return float(beta.ppf(1 - wrong, count + 1, of - count)) if count < of else 1.0
