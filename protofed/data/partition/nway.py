"""n-way k-shot: each client holds about n classes with about k samples of each.

Tan et al., *FedProto*, AAAI 2022. The paper's "standard deviation" s is, in the released code, the
half-range of uniform integers: n_i from [max(2, n−s), min(C, n+s+1)), k_i from [k−s+1, k+s+1).
Client i takes rows [110·i, 110·i+k_i) of each of its classes, and test rows [r·i, r·i+r) with r = 40
for MNIST and 15 elsewhere. Note that the upper bound of n_i is exclusive: no client holds all classes
unless n is set so high that the range is that one value.

Departures: s = 0 gives k_i = k (the released range would be empty). Where a class is too small for the
published rows, the clients that hold it take consecutive rows instead, and r shrinks to what there is;
an explicit `stride` or `test` is kept or refused. So small sets, and sets with many classes and few
rows (FEMNIST), can be divided too; clients stay disjoint in any case.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.errors import ConfigError, DataError
from ...core.options import option
from ...core.rng import numpy_generator
from ..base import Dataset, Partitioner, Rows, Split, partitions
from .sorted_rows import SortedRows


@partitions.register("nway")
@dataclass(frozen=True)
class NWay(Partitioner):
    """FedProto's n-way k-shot rule."""

    n: int = option(3, "mean number of classes per client", low=1)
    k: int = option(100, "mean number of training samples per class", low=1)
    stdev: int = option(2, "half-range s of both", low=0)
    stride: int | None = option(
        None,
        "client i takes rows from stride·i on; default 110, consecutive rows if a class is too small",
        low=1,
    )
    test: int | None = option(None, "test rows per class; default 40 (mnist) or 15, less if small", low=1)
    bounds: str = option(
        "common", "mnist: k_i from [k-s+1, k+s-1) as in the code for MNIST", choices=("common", "mnist")
    )

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        rng = numpy_generator(seed, "partition", self.name)
        if not dataset.test.any():
            raise DataError(f"nway: {dataset.name} has no test rows, which this rule needs; use another one")
        ways, shots = self._ways(dataset.num_classes, clients, rng), self._shots(clients, rng)
        holds = rng.random((clients, dataset.num_classes)).argsort(axis=1).argsort(axis=1) < ways[:, None]
        train = SortedRows(dataset, np.flatnonzero(~dataset.test))
        test = SortedRows(dataset, np.flatnonzero(dataset.test))
        return Split(
            _cut(train, holds * shots[:, None], self.stride, 110, "training"),
            self._test_rows(test, holds, 40 if dataset.name == "mnist" else 15),
        )

    def _ways(self, classes: int, clients: int, rng: np.random.Generator) -> np.ndarray:
        if self.n > classes:
            raise ConfigError(f"nway: n={self.n} but the data has {classes} classes")
        low = min(max(2, self.n - self.stdev), classes)
        return rng.integers(low, max(low + 1, min(classes, self.n + self.stdev + 1)), clients)

    def _shots(self, clients: int, rng: np.random.Generator) -> np.ndarray:
        if self.stdev == 0:
            return np.full(clients, self.k)
        high = self.k + self.stdev + (1 if self.bounds == "common" else -1)
        low = self.k - self.stdev + 1
        if low < 1 or high <= low:
            raise ConfigError(f"nway: k={self.k} and stdev={self.stdev} leave no choice in [{low}, {high})")
        return rng.integers(low, high, clients)

    def _test_rows(self, by_class: SortedRows, holds: np.ndarray, published: int) -> Rows:
        if self.test:
            return _cut(by_class, holds * self.test, None, self.test, "test")
        holders = holds.sum(axis=0)
        fits = int((by_class.counts[holders > 0] // holders[holders > 0]).min())
        rows = max(1, min(published, fits))
        return _cut(by_class, holds * rows, None, rows, "test")


def _cut(by_class: SortedRows, amounts: np.ndarray, stride: int | None, published: int, part: str) -> Rows:
    """Rows [stride·i, stride·i + amount) of each class, or consecutive ones where that is too much."""
    client, cls = np.nonzero(amounts)
    count = amounts[client, cls]
    if stride is not None and stride < count.max():
        raise ConfigError(f"nway: stride {stride} is less than the {count.max()} rows that a client takes")
    first = client * (stride or max(published, int(count.max())))
    if stride is None:
        small = np.isin(cls, cls[first + count > by_class.counts[cls]])
        consecutive = (np.cumsum(amounts, axis=0) - amounts)[client, cls]
        first = np.where(small, consecutive, first)
    short = np.flatnonzero(first + count > by_class.counts[cls])
    if len(short):
        p = short[0]
        raise DataError(
            f"nway: client {client[p]} needs {part} rows {first[p]} to {first[p] + count[p] - 1} of class "
            f"{cls[p]}, which has {by_class.counts[cls[p]]}; lower k, stride or the number of clients"
        )
    return by_class.cut(client, cls, first, count, len(amounts))
