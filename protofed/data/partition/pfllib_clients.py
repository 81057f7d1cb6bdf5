"""The clients of a split in PFLlib's layout, as its files number them. Use with `pfllib:DIR` as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.rng import numpy_generator
from ..base import Dataset, Partitioner, Split, partitions
from .natural import by_owner, fit_owners


@partitions.register("pfllib")
@dataclass(frozen=True)
class PflLib(Partitioner):
    """The clients of pfllib:DIR, or the first ones of them."""

    counts_clients: ClassVar[bool] = True

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        owners = fit_owners(dataset, 1, clients, self.name)
        rng = numpy_generator(seed, "partition", self.name)
        return by_owner(dataset, owners[: clients or None], 0.75, rng)
