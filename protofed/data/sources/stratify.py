"""Which rows are test where a set has no published split."""

from __future__ import annotations

import numpy as np

from ...core.rng import numpy_generator


def rank_within(group: np.ndarray) -> np.ndarray:
    """Position of each element among those of its group, in order of appearance.

    >>> rank_within(np.array([5, 7, 5, 5, 7])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    first = np.searchsorted(ordered, ordered, side="left")
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - first
    return rank


def stratified_test(group: np.ndarray, fraction: float, name: str) -> np.ndarray:
    """[N] bool: a fixed random share of each group (class) is marked as test.

    Used where a set has no published split. The choice depends on `name` alone, never on the run's seed.
    """
    shuffled = numpy_generator("test split", name).permutation(len(group))
    rank = np.empty(len(group), dtype=np.int64)
    rank[shuffled] = rank_within(group[shuffled])
    count = np.bincount(group)[group]
    return rank < np.round(fraction * count)
