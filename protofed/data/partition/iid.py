"""Equal random shares; the published train and test rows are divided separately.

A set without test rows first loses a random quarter to the test rows. All steps are array
operations, so a million clients take no longer than the shuffling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.errors import DataError
from ...core.options import option
from ...core.rng import numpy_generator
from ..base import Dataset, Partitioner, Rows, Split, partitions


@partitions.register("iid")
@dataclass(frozen=True)
class Iid(Partitioner):
    """Equal random shares."""

    samples: int | None = option(None, "training rows per client; default: all rows, divided evenly", low=1)
    repeat: bool = option(False, "reuse rows when there are too few, to simulate large populations")

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        rng = numpy_generator(seed, "partition", self.name)
        train, test = _pools(dataset, rng)
        wanted = clients * (self.samples or 1)
        if wanted > len(train) and not self.repeat:
            raise DataError(
                f"iid: {clients} clients need {wanted} training rows, {dataset.name} has {len(train)}; "
                "use fewer clients or samples, or repeat=true to reuse rows"
            )
        return Split(self._deal(train, clients, self.samples, rng), self._deal(test, clients, None, rng))

    def _deal(self, rows: np.ndarray, clients: int, samples: int | None, rng: np.random.Generator) -> Rows:
        if self.repeat and 0 < len(rows) < clients and samples is None:
            samples = 1
        total = len(rows) if samples is None else clients * samples
        offsets = np.arange(clients + 1, dtype=np.int64) * total // clients
        copies = max(1, -(-total // max(1, len(rows))))
        values = rng.permuted(np.tile(rows, (copies, 1)), axis=1).reshape(-1)
        return Rows(values[:total], offsets)


def _pools(dataset: Dataset, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    if dataset.test.any():
        return np.flatnonzero(~dataset.test), np.flatnonzero(dataset.test)
    rows = rng.permutation(len(dataset.test))
    quarter = len(rows) // 4
    return rows[quarter:], rows[:quarter]
