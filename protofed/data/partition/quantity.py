"""Quantity skew: the class mix is the same everywhere, the sizes follow a Dirichlet draw.

Li et al., *Federated Learning on Non-IID Data Silos*, ICDE 2022. With `pool`, 75 % of each
client's rows, at random, are for training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from ...core.options import option
from ...core.rng import numpy_generator
from ..base import Dataset, Rows, Split, partitions
from .dirichlet import cut_sizes
from .pooling import PoolingPartitioner
from .sorted_rows import offsets_of
from .tries import draw_until


@partitions.register("quantity")
@dataclass(frozen=True)
class Quantity(PoolingPartitioner):
    """Sizes by Dirichlet, classes at random."""

    also_called: ClassVar[Mapping[str, str]] = MappingProxyType({"alpha": "beta"})
    beta: float = option(0.5, "concentration; small means very unequal sizes", above=0)
    minimum: int = option(10, "rows a client must have", low=1)
    tries: int = option(2000, "draws before giving up", low=1)

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        rng = numpy_generator(seed, "partition", self.name)
        rows = rng.permutation(self.rows(dataset))
        sizes = draw_until(
            lambda: cut_sizes(rng.dirichlet(np.full(clients, self.beta)), len(rows)),
            self.minimum,
            self.tries,
            clients,
            len(rows),
            self.name,
        )
        return self.finish(dataset, Rows(rows, offsets_of(sizes)), rng)
