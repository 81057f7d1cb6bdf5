"""Pathological label skew: each client holds p classes, in unequal amounts.

McMahan et al. 2017 in the form that the FedTGP authors use (Zhang et al., AAAI 2024), who merge train
and test rows first (`pool=true`). For each class in turn, the first ⌈K·p/C⌉ clients that still lack
classes share its rows, in row order: all but the last get a random size from [max(N_c/10m, l_min/C),
N_c/m), the last gets the rest (`balanced`: equal sizes). With `pool`, 75 % of each client's rows, at
random, are then for training.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.errors import ConfigError, DataError
from ...core.options import option
from ...core.rng import numpy_generator
from ..base import Dataset, Split, partitions
from .dirichlet import least_rows
from .pooling import PoolingPartitioner
from .sorted_rows import SortedRows


@partitions.register("pathological")
@dataclass(frozen=True)
class Pathological(PoolingPartitioner):
    """p classes per client, in unequal amounts."""

    p: int = option(2, "classes per client", low=1)
    balanced: bool = option(False, "equal amounts")
    batch: int = option(10, "batch size, for the smallest amount", low=1)

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        if self.p > dataset.num_classes:
            raise ConfigError(f"pathological: p={self.p} but the data has {dataset.num_classes} classes")
        rng = numpy_generator(seed, "partition", self.name)
        by_class = SortedRows(dataset, self.rows(dataset))
        least = least_rows(len(by_class.rows), clients, self.batch, self.train)
        amounts = np.zeros((clients, dataset.num_classes), dtype=np.int64)
        quota = np.full(clients, self.p)
        for cls, count in enumerate(by_class.counts):
            chosen = np.flatnonzero(quota)[: -(-clients * self.p // dataset.num_classes)]
            if len(chosen) and count:
                amounts[chosen, cls] = self._sizes(
                    int(count), len(chosen), least / dataset.num_classes, cls, rng
                )
                quota[chosen] -= 1
        return self.finish(dataset, by_class.deal(amounts), rng)

    def _sizes(
        self, count: int, holders: int, least: float, cls: int, rng: np.random.Generator
    ) -> np.ndarray:
        share = count / holders
        if self.balanced:
            sizes = np.full(holders - 1, int(share))
        elif holders == 1:
            sizes = np.empty(0, dtype=np.int64)
        else:
            low, high = int(max(share / 10, least)), int(share)
            if low >= high:
                raise DataError(
                    f"pathological: class {cls} has {count} rows for {holders} clients, too few for "
                    f"amounts from {low} to {high}; use fewer clients or balanced=true"
                )
            sizes = rng.integers(low, high, holders - 1)
        return np.append(sizes, count - sizes.sum())
