"""Which rows are test where a set has no published split."""

from __future__ import annotations

import numpy as np

from ...core.rng import numpy_generator
from ..grouped import rank_within


def stratified_test(group: np.ndarray, fraction: float, name: str) -> np.ndarray:
    """[N] bool: a fixed random share of each group (class) is marked as test.

    The choice depends on `name` alone, never on the seed of a run.
    """
    shuffled = numpy_generator("test split", name).permutation(len(group))
    rank = np.empty(len(group), dtype=np.int64)
    rank[shuffled] = rank_within(group[shuffled])
    wanted: np.ndarray = np.round(fraction * np.bincount(group))
    return np.asarray(rank < wanted[group])
