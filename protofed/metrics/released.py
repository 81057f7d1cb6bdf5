"""Accuracies over clients as FedProto's released evaluation prints them.

It never sets its counters back, neither between clients nor between the pass with the classifier and that
with the prototypes, so that each value holds all before it: a running mean, whose spread is smaller than that
of the clients. The printed ± of FedProto (0.2 to 2.5, beside 3 to 10 of its baselines) was probably made so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate


def running_accuracies(
    n: Sequence[int], classifier: Sequence[float], prototypes: Sequence[float] | None = None
) -> list[float]:
    """In percent, one a client in their order, of those that the last given counts of right answers are of.

    Two clients of 10 samples, classifier 10 and 5 right, prototypes 8 and 7: these 18/20 and 30/40.

    >>> running_accuracies([10, 10], [10, 5], [8, 7]), running_accuracies([10, 10], [10, 5])
    ([90.0, 75.0], [100.0, 75.0])
    """
    counts, right = list(n), list(classifier)
    if prototypes is not None:  # one pass after the other, client by client
        counts = [m for m in n for _ in range(2)]
        right = [value for pair in zip(classifier, prototypes, strict=True) for value in pair]
    running = [100 * r / m for r, m in zip(accumulate(right), accumulate(counts))]
    return running if prototypes is None else running[1::2]


def spread(values: Sequence[float]) -> float:
    """Standard deviation with n, as NumPy's default; NaN without values."""
    if not values:
        return math.nan
    middle = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / len(values))
