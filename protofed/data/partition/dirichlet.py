"""Label skew by a Dirichlet distribution, with FedTGP's balance rule.

Hsu et al., *Measuring the Effects of Non-Identical Data Distribution*, 2019; the balance rule and the
minimum follow the code that the FedTGP authors use (Zhang et al., AAAI 2024; earlier Li et al., MOON,
CVPR 2021), who merge train and test rows first (`pool=true`). Per class, shares q ∼ Dir(β); clients that
already hold N/K rows get none (`balance`); repeat until every client has the minimum. With `pool`, 75 %
of each client's rows, at random, are then for training; a class may end up only in a client's train or
test part.

Departures: tries are counted, and end in an error. Only sizes are drawn while trying; rows are
shuffled once, after. Where all shares of the open clients underflow to 0 the class is divided evenly
among them, instead of becoming NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from ...core.options import option
from ...core.rng import numpy_generator
from ..base import Dataset, Split, partitions
from .pooling import PoolingPartitioner
from .sorted_rows import SortedRows
from .tries import draw_until


@partitions.register("dirichlet")
@dataclass(frozen=True)
class Dirichlet(PoolingPartitioner):
    """Label skew by Dirichlet shares per class."""

    also_called: ClassVar[Mapping[str, str]] = MappingProxyType({"alpha": "beta"})
    beta: float = option(0.1, "concentration; small means few classes per client", above=0)
    balance: bool = option(True, "clients that hold their even share get no more")
    minimum: int | None = option(None, "rows a client must have; default min(batch/0.25, N/2K)", low=1)
    batch: int = option(10, "batch size, for the default minimum", low=1)
    tries: int = option(2000, "draws before giving up", low=1)

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        rng = numpy_generator(seed, "partition", self.name)
        by_class = SortedRows(dataset, self.rows(dataset), rng)
        rows = len(by_class.rows)
        minimum = self.minimum or least_rows(rows, clients, self.batch, self.train)
        amounts = draw_until(
            lambda: self._draw(by_class.counts, clients, rng),
            minimum,
            self.tries,
            clients,
            rows,
            self.name,
        )
        return self.finish(dataset, by_class.deal(amounts), rng)

    def _draw(self, counts: np.ndarray, clients: int, rng: np.random.Generator) -> np.ndarray:
        amounts = np.zeros((clients, len(counts)), dtype=np.int64)
        held = np.zeros(clients, dtype=np.int64)
        shares = rng.dirichlet(np.full(clients, self.beta), len(counts))
        for cls, count in enumerate(counts):
            q = shares[cls]
            if self.balance:
                is_open = held < counts.sum() / clients
                q = q * is_open
                q = q / q.sum() if q.sum() > 0 else is_open / is_open.sum()
            amounts[:, cls] = cut_sizes(q, int(count))
            held += amounts[:, cls]
        return amounts


def cut_sizes(shares: np.ndarray, count: int) -> np.ndarray:
    """Sizes of the pieces when `count` rows are cut at ⌊cumulative share · count⌋.

    >>> cut_sizes(np.array([0.25, 0.0, 0.75]), 10).tolist()
    [2, 0, 8]
    """
    cuts = np.floor(np.cumsum(shares)[:-1] * count).astype(np.int64).clip(0, count)
    return np.diff(np.concatenate([[0], cuts, [count]]))


def least_rows(rows: int, clients: int, batch: int, train: float) -> int:
    """l_min = min(batch / (1 − train), N / 2K), at least 1: the test part can fill one batch."""
    full = batch / (1 - train) if train < 1 else batch
    return max(1, int(min(full, rows / clients / 2)))
