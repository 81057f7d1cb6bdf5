"""Each client holds exactly n classes; a class is shared among its holders by a Dirichlet draw.

Li and Lyu, *Convergence Analysis of Sequential Federated Learning on Heterogeneous Data*, NeurIPS
2023, arxiv.org/abs/2311.03154 ("extended Dirichlet strategy"). With `pool`, 75 % of each client's rows,
at random, are for training.

Departures: classes are dealt so that all have equally many holders, give or take one (a client takes
the n classes with fewest holders, ties at random), which needs no repeated draws. Every holder gets one
row of its class before the rest is shared, so that it is exactly n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from ...core.errors import ConfigError, DataError
from ...core.options import option
from ...core.rng import numpy_generator
from ..base import Dataset, Split, partitions
from .dirichlet import cut_sizes
from .pooling import PoolingPartitioner
from .sorted_rows import SortedRows
from .tries import draw_until


@partitions.register("extended_dirichlet")
@dataclass(frozen=True)
class ExtendedDirichlet(PoolingPartitioner):
    """Exactly n classes per client, amounts by Dirichlet."""

    also_called: ClassVar[Mapping[str, str]] = MappingProxyType({"beta": "alpha"})
    n: int = option(2, "classes per client", low=1)
    alpha: float = option(1.0, "concentration of the amounts", above=0)
    minimum: int = option(10, "rows a client must have", low=1)
    tries: int = option(2000, "draws before giving up", low=1)

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        rng = numpy_generator(seed, "partition", self.name)
        by_class = SortedRows(dataset, self.rows(dataset), rng)
        holds = self._deal_classes(by_class.counts, clients, rng)
        held = int(by_class.counts[holds.any(axis=0)].sum())
        amounts = draw_until(
            lambda: self._draw(holds, by_class.counts, rng),
            self.minimum,
            self.tries,
            clients,
            held,
            self.name,
        )
        return self.finish(dataset, by_class.deal(amounts), rng)

    def _deal_classes(self, counts: np.ndarray, clients: int, rng: np.random.Generator) -> np.ndarray:
        """[K, C] bool with n classes in each row."""
        present = np.flatnonzero(counts)
        if self.n > len(present):
            raise ConfigError(f"extended_dirichlet: n={self.n} but the data has {len(present)} classes")
        holds = np.zeros((clients, len(counts)), dtype=bool)
        holders = np.zeros(len(present), dtype=np.int64)
        for client, ties in enumerate(rng.random((clients, len(present)))):
            fewest = np.lexsort((ties, holders))[: self.n]
            holders[fewest] += 1
            holds[client, present[fewest]] = True
        short = np.flatnonzero(holds.sum(axis=0) > counts)
        if len(short):
            raise DataError(
                f"extended_dirichlet: class {short[0]} has {counts[short[0]]} rows for "
                f"{holds[:, short[0]].sum()} clients; use fewer clients or a smaller n"
            )
        return holds

    def _draw(self, holds: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        amounts = holds.astype(np.int64)
        for cls in np.flatnonzero(holds.any(axis=0)):
            holders = np.flatnonzero(holds[:, cls])
            shares = rng.dirichlet(np.full(len(holders), self.alpha))
            amounts[holders, cls] += cut_sizes(shares, int(counts[cls]) - len(holders))
        return amounts
