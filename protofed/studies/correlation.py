"""Pearson's correlation of what a table measures with the accuracy of the same runs (ProtoMargin: AMM, 0.68).

Pairs are the cells of the table that measure it: one for each method and data set, means over their runs.
The paper does not say which its pairs are: of the cells that its Tables 2 and 4 print, r is 0.65 (p = 0.007),
without Centralized 0.59 (p = 0.04).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .cells import Cell
from .recipe import Recipe

FEWEST = 3  # pairs: with two the correlation is 1 or −1


class Correlation(NamedTuple):
    """Pearson's r, its two-sided p, and over how many pairs."""

    r: float
    p: float
    pairs: int


def pearson(one: Sequence[float], two: Sequence[float]) -> Correlation:
    """NaN for fewer than three pairs, and where one side is constant.

    0, 1, 2 and 0, 2, 1: covariance 1/3, both variances 2/3, r = 1/2; with one degree of freedom p = 2/3.
    """
    if len(one) < FEWEST or min(len(set(one)), len(set(two))) < 2:
        return Correlation(math.nan, math.nan, len(one))
    from scipy.stats import pearsonr

    found = pearsonr(one, two)
    return Correlation(float(found.statistic), float(found.pvalue), len(one))


def correlation_note(recipe: Recipe, cells: Sequence[Cell]) -> list[str]:
    """A line under the table, where the recipe asks for it."""
    about = recipe.about
    if not about.correlate:
        return []
    measured = {c.name for c in recipe.columns if (c.measure or about.measure) == about.measure}
    pairs = [(cell.ours, cell.accuracy) for cell in cells if cell.column in measured]
    known = [pair for pair in pairs if not any(map(math.isnan, pair))]
    found = pearson([one for one, _ in known], [two for _, two in known])
    printed = "".join(f" (paper: r = {r:g}, p = {p:g})" for r, p in [about.correlation] if about.correlation)
    if math.isnan(found.r):
        why = "cells are too few" if found.pairs < FEWEST else "cells, and one of the two is the same in all"
        return [f"correlation of {about.measure} and accuracy: {found.pairs} {why}{printed}"]
    return [
        f"correlation of {about.measure} and accuracy: r = {found.r:.2f}, p = {found.p:.2g} over "
        f"{found.pairs} cells{printed}"
    ]
