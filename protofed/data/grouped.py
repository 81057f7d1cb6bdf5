"""Counting within groups, without loops over the groups."""

from __future__ import annotations

import numpy as np


def rank_within(group: np.ndarray) -> np.ndarray:
    """Position of each element among those of its group, in order of appearance.

    >>> rank_within(np.array([5, 7, 5, 5, 7])).tolist()
    [0, 0, 1, 2, 1]
    """
    return total_before(group, np.ones(len(group), dtype=np.int64))


def total_before(group: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """For each element, the sum of the amounts of earlier elements of its group.

    >>> total_before(np.array([5, 7, 5, 5]), np.array([10, 1, 20, 5])).tolist()
    [0, 0, 10, 30]
    """
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    before = np.cumsum(amount[order]) - amount[order]
    first = np.searchsorted(ordered, ordered, side="left")
    made = np.empty(len(group), dtype=np.int64)
    made[order] = before - before[first]
    return made
