"""The clients of a split in PFLlib's layout, as its files number them. Use with `pfllib:DIR` as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..base import Dataset, Partitioner, Split, partitions
from .natural import Natural


@partitions.register("pfllib")
@dataclass(frozen=True)
class PflLib(Partitioner):
    """The clients of pfllib:DIR, or the first ones of them."""

    counts_clients: ClassVar[bool] = True

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        return Natural(choose="first").split(dataset, clients, seed)
