"""FEMNIST letters a to j among 200 clients, five neighbouring letters each.

Li et al., *FedProx*, MLSys 2020, as used by *Prototype Guided Federated Learning of Visual Feature
Representations* (5 letters; FedProx's code: `ways=3`), which merge train and test rows first
(`pool=true`). Client u holds the letters (u+j) mod 10, j < ways; its size, lognormal(4, 1)+5, is divided
evenly, at least 2 rows a letter, taken in row order. With `pool`, 80 % of a client's rows are for training.

Small copies of FEMNIST run out of letters: then `repeat=true` starts again at a letter's first row, so
that clients share rows. With `pool`, the last rows of each letter are then set aside for all clients'
tests: no client trains on what another is tested on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.errors import DataError
from ...core.options import option
from ...core.rng import numpy_generator
from ..base import Dataset, Rows, Split, partitions
from ..grouped import total_before
from .pooling import PoolingPartitioner
from .sorted_rows import SortedRows

LETTERS = "abcdefghij"


@partitions.register("femnist_letters")
@dataclass(frozen=True)
class FemnistLetters(PoolingPartitioner):
    """Neighbouring letters of a to j, log-normal sizes."""

    ways: int = option(5, "letters per client", low=1, high=len(LETTERS))
    repeat: bool = option(False, "reuse rows when letters run out")
    train: float = option(
        0.8, "share of a client's rows for training, with pool or without a test set", above=0, high=1
    )

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        missing = [letter for letter in LETTERS if letter not in dataset.classes]
        if missing:
            raise DataError(
                f"femnist_letters: {dataset.name} has no class {missing[0]!r}; use femnist or "
                "femnist:classes=letters"
            )
        rng = numpy_generator(seed, "partition", self.name)
        by_class = SortedRows(dataset, self.rows(dataset))
        ids = np.array([dataset.classes.index(letter) for letter in LETTERS])
        client, j = np.repeat(np.arange(clients), self.ways), np.tile(np.arange(self.ways), clients)
        cls = ids[(client + j) % len(LETTERS)]
        amount = np.maximum(2, (rng.lognormal(4, 1, clients) + 5) / self.ways).astype(np.int64)[client]
        self._check(total_before(cls, amount) + amount, cls, client, by_class, dataset)
        if not self.repeat:
            rows = by_class.cut(client, cls, total_before(cls, amount), amount, clients)
            return self.finish(dataset, rows, rng)
        if not self.pools(dataset):
            return self.finish(dataset, _again(by_class, client, cls, amount, clients), rng)
        keep = np.maximum(1, np.floor(self.train * amount + 1e-9).astype(np.int64))
        train, test = (SortedRows(dataset, rows) for rows in self._set_aside(by_class))
        split = Split(
            _again(train, client, cls, keep, clients), _again(test, client, cls, amount - keep, clients)
        )
        return self.capped(dataset, split)

    def _set_aside(self, by_class: SortedRows) -> tuple[np.ndarray, np.ndarray]:
        """Rows for training, at least one a letter, and for tests."""
        rank = np.arange(len(by_class.rows)) - np.repeat(by_class.starts, by_class.counts)
        keep = np.maximum(1, np.floor(self.train * by_class.counts + 1e-9))
        trains = rank < np.repeat(keep, by_class.counts)
        return np.sort(by_class.rows[trains]), np.sort(by_class.rows[~trains])

    def _check(
        self, end: np.ndarray, cls: np.ndarray, client: np.ndarray, by_class: SortedRows, dataset: Dataset
    ) -> None:
        short = np.flatnonzero(end > by_class.counts[cls])
        empty = by_class.counts[cls].min() == 0
        if empty or (len(short) and not self.repeat):
            p = int(by_class.counts[cls].argmin()) if empty else int(short[0])
            raise DataError(
                f"femnist_letters: client {client[p]} needs {end[p]} rows of {dataset.classes[cls[p]]!r} to "
                f"be there, {by_class.counts[cls[p]]} are; use fewer clients"
                + ("" if empty else " or repeat=true to reuse rows")
            )


def _again(
    by_class: SortedRows, client: np.ndarray, cls: np.ndarray, amount: np.ndarray, clients: int
) -> Rows:
    """Rows in order, from the first again when they run out; none twice for one client."""
    amount = np.minimum(amount, by_class.counts[cls])
    return by_class.cut(client, cls, total_before(cls, amount), amount, clients, wrap=True)
