"""Means, spreads and the significance of a difference.

Significance: the two-sided Wilcoxon signed-rank test over pairs (seed, client). Both methods saw the same
samples, first weights, participants and batches, so the pairs are matched. Accuracies of clients are not
normal, hence no t-test. Several methods against one: Holm's correction.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

FEWEST_PAIRS = 6  # with five the test cannot reach 0.05: two signs of 2⁵ are 0.0625


def mean(values: Sequence[float]) -> float:
    """NaN without values."""
    return math.fsum(values) / len(values) if values else math.nan


def sample_std(values: Sequence[float]) -> float:
    """With n − 1; NaN for fewer than two values.

    >>> round(sample_std([92.7, 88.7, 85.1]), 1)
    3.8
    """
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def paired_p(one: Mapping[Hashable, float], two: Mapping[Hashable, float]) -> float:
    """Two-sided p of the Wilcoxon signed-rank test over the keys that both have; NaN for too few pairs.

    Six differences 1, …, 6 of one sign: only one of 2⁶ choices of signs is as extreme on either side,
    p = 2/64 = 0.03125. Equal values everywhere give 1.
    """
    shared = [key for key in one if key in two]
    gaps = np.array([one[key] - two[key] for key in shared])
    if len(gaps) < FEWEST_PAIRS:
        return math.nan
    if not gaps.any():
        return 1.0
    from scipy.stats import wilcoxon

    # Rounding, so that differences which are equal as fractions of test samples also tie.
    return float(wilcoxon(gaps.round(9)).pvalue)


def holm(values: Sequence[float]) -> list[float]:
    """p values adjusted for their number (Holm 1979); NaN stays, and is not counted.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted((i for i, p in enumerate(values) if not math.isnan(p)), key=lambda i: values[i])
    adjusted, highest = [math.nan] * len(values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * values[i]))
        adjusted[i] = highest
    return adjusted
