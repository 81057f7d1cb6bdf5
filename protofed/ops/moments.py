"""Sums over samples, and classifiers that follow from them in closed form.

Axes: M features, C classes, T = M(M+1)/2 entries of a triangle. Sums are kept in float64: a classifier made
of added sums then equals the one of the pooled samples to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from .prototypes import class_sums, one_hot

UNKNOWN = -1e4  # score of a class that nobody has: it never wins, and stays finite
FLAT = 1e-9  # of a mean square: rounding, not spread
COARSE, FINE, COOLEST, HOTTEST = 21, 3, 1.0, 1000.0  # search for a temperature


class Moments(NamedTuple):
    """Σ φφᵀ [M, M] (or none, [0, 0]), Σ φ per class [C, M], samples per class [C]."""

    gram: Tensor
    sums: Tensor
    n: Tensor

    def plus(self, other: Moments, sign: int = 1) -> Moments:
        """Sums of both; with sign −1, of the samples of this one without those of the other."""
        return Moments(*(one + sign * two for one, two in zip(self, other)))

    def times(self, weight: float) -> Moments:
        """Sums in which every sample counts `weight` times."""
        return Moments(*(weight * one for one in self))


def moments_of(pairs: Iterable[tuple[Tensor, Tensor]], classes: int, gram: bool = True) -> Moments:
    """Sums of features [B, M] with their labels [B], piece by piece."""
    total: Moments | None = None
    for features, y in pairs:
        wide = features.double()
        sums, n = class_sums(wide, y, classes)
        piece = Moments(wide.T @ wide if gram else wide.new_zeros(0, 0), sums, n)
        total = piece if total is None else total.plus(piece)
    assert total is not None, "sums over no samples"
    return total


def triangle(square: Tensor) -> Tensor:
    """The upper triangle of a symmetric matrix, row by row, as one vector."""
    rows, columns = torch.triu_indices(*square.shape, device=square.device)
    return square[rows, columns]


def square_of(entries: Tensor) -> Tensor:
    """Inverse of `triangle`."""
    side = (math.isqrt(8 * len(entries) + 1) - 1) // 2
    rows, columns = torch.triu_indices(side, side, device=entries.device)
    square = entries.new_zeros(side, side)
    square[rows, columns] = entries
    square[columns, rows] = entries
    return square


def class_centres(m: Moments) -> Tensor:
    """μ_c = B_c / N_c; zeros for a class without samples."""
    return m.sums / m.n.clamp(min=1)[:, None]


def scatter(m: Moments) -> Tensor:
    """Σ (φ − μ_y)(φ − μ_y)ᵀ = A − Σ_c N_c μ_c μ_cᵀ."""
    centres = class_centres(m)
    return m.gram - (centres * m.n[:, None]).T @ centres


def oas(cov: Tensor, freedom: float) -> float:
    """Shrinkage by oracle approximation: Chen, Wiesel, Eldar, Hero, IEEE TSP 2010, Eq. 23.

    ρ = ((1 − 2/M) tr S² + tr²S) / ((f + 1 − 2/M)(tr S² − tr²S / M)), at most 1. (scikit-learn leaves the 2/M
    out of both brackets, which for many features is the same.)
    """
    size = len(cov)
    square, trace2 = float(cov.square().sum()), float(cov.trace()) ** 2
    below = (freedom + 1 - 2 / size) * (square - trace2 / size)
    above = (1 - 2 / size) * square + trace2
    return min(1.0, max(0.0, above / below)) if below > 0 else 1.0


def whitened(m: Moments, rows: Tensor) -> Tensor:
    """Rows times Σ⁻¹ with Σ = (1−ρ) S + ρ (tr S / M) I, S = scatter / (N − C′), C′ the classes seen.

    By Cholesky; where rounding made S negative, by eigenvalues, of which negative ones are 0. Where samples
    do not spread at all (one a class) Σ is the mean square of a feature times I.
    """
    size, freedom = len(m.gram), max(1.0, float(m.n.sum() - (m.n > 0).sum()))
    cov = scatter(m) / freedom
    level, rho = float(cov.trace()) / size, oas(cov, freedom)
    square = float(m.gram.trace()) / float(m.n.sum()) / size
    if level <= FLAT * square:
        return rows / max(square, FLAT)
    shrunk, least = (1 - rho) * cov, max(rho, FLAT) * level
    factor, failed = torch.linalg.cholesky_ex(shrunk + least * torch.eye(size).to(cov))
    if not int(failed):
        return torch.cholesky_solve(rows.T, factor).T
    values, vectors = torch.linalg.eigh(shrunk)
    solved: Tensor = (rows @ vectors / (values.clamp(min=0) + least)) @ vectors.T
    return solved


class LinearHead(NamedTuple):
    """Scores φ Wᵀ + b for the known classes."""

    weight: Tensor  # [C, M]
    bias: Tensor  # [C]
    known: Tensor  # bool [C]

    def scores(self, features: Tensor) -> Tensor:
        """[B, C]; unknown classes far below all others."""
        return (features @ self.weight.T + self.bias).masked_fill(~self.known, UNKNOWN)

    def over(self, temperature: float) -> LinearHead:
        """Scores divided by a temperature."""
        return LinearHead(self.weight / temperature, self.bias / temperature, self.known)

    def to(self, dtype: torch.dtype) -> LinearHead:
        """In another precision."""
        return LinearHead(self.weight.to(dtype), self.bias.to(dtype), self.known)


def gaussian_head(m: Moments) -> LinearHead:
    """Linear discriminant: w_c = Σ⁻¹ μ_c, b_c = −½ μ_cᵀ Σ⁻¹ μ_c."""
    centres = class_centres(m)
    weight = whitened(m, centres)
    return LinearHead(weight, -0.5 * (weight * centres).sum(1), m.n > 0)


def log_prior(n: Tensor) -> Tensor:
    """log π_c = log (n_c + 1) / (n + C)."""
    return ((n + 1) / (n.sum() + len(n))).log()


def temper(scores: Tensor, y: Tensor, prior: Tensor, known: Tensor) -> tuple[float, float]:
    """The T from 1 to 1000 with the least cross-entropy of scores / T + log prior, over known classes, and
    that cross-entropy.

    A few samples that are all told apart would ask for ever more certainty, so targets are softened as in
    Platt scaling: of n samples each counts (n+1)/(n+2) for its class, the rest for others by their priors.
    Searched on finer and finer grids of log T.
    """
    mine = known[y]
    scores, y = scores[mine], y[mine]
    if not len(y):
        return 1.0, math.inf
    targets = _softened(y, prior.exp() * known)
    low, high = math.log(COOLEST), math.log(HOTTEST)
    best, cost = low, math.inf
    for _ in range(FINE):
        grid = torch.linspace(low, high, COARSE, dtype=torch.float64).tolist()
        costs = [float(_cost(scores, targets, prior, known, t)) for t in grid]
        cost, best = min(zip(costs, grid))
        step = (high - low) / (COARSE - 1)
        low, high = max(math.log(COOLEST), best - step), min(math.log(HOTTEST), best + step)
    return math.exp(best), cost


def _softened(y: Tensor, shares: Tensor) -> Tensor:
    """[n, C]: (n+1)/(n+2) at the label, the rest spread over the other classes by their shares."""
    sure, hot = (len(y) + 1) / (len(y) + 2), one_hot(y, len(shares), shares.dtype)
    others = shares * (1 - hot)
    return sure * hot + (1 - sure) * others / others.sum(1, keepdim=True).clamp(min=1e-12)


def _cost(scores: Tensor, targets: Tensor, prior: Tensor, known: Tensor, log_t: float) -> Tensor:
    return cross_entropy((scores / math.exp(log_t) + prior).masked_fill(~known, UNKNOWN), targets)
