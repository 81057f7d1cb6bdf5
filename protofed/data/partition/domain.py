"""One client per domain: few training rows a class, all test rows of the domain.

As in FedPLVM and FedPLCC (Digit-5, Office-10: m = 30; DomainNet: m = 40). Client i has domain
i mod D and takes the first m training rows of each class, all if there are fewer. More clients than
domains: the second client of a domain takes the next m rows, and tests on the same rows as the first.
With `clients=0` there is one client per domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.errors import DataError
from ...core.options import option
from ..base import Dataset, Partitioner, Rows, Split, partitions
from ..grouped import rank_within
from ..labels import row_labels


@partitions.register("domain")
@dataclass(frozen=True)
class Domain(Partitioner):
    """One client per domain, m training rows a class."""

    counts_clients: ClassVar[bool] = True
    m: int | None = option(30, "training rows per class; none: all rows of the domain, shared evenly", low=1)

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        if dataset.domain is None:
            raise DataError(f"domain: {dataset.name} has no domains; use a set that has (digit5, pacs)")
        if not dataset.test.any():
            raise DataError(f"domain: {dataset.name} has no test rows, which this rule needs")
        count = len(dataset.domains)
        clients = clients or count
        labels = row_labels(dataset)
        train, test = [], []
        for client in range(clients):
            rows = np.flatnonzero(dataset.domain == client % count)
            own = rows[~dataset.test[rows]]
            sharers = len(range(client % count, clients, count))
            train.append(own[self._mine(rank_within(labels[own]), client // count, sharers)])
            test.append(rows[dataset.test[rows]])
        return Split(Rows.of(train), Rows.of(test))

    def _mine(self, rank: np.ndarray, turn: int, sharers: int) -> np.ndarray:
        """Which rows go to the domain's client number `turn`, by their rank within their class."""
        return np.asarray(rank % sharers == turn if self.m is None else rank // self.m == turn)
