"""One client per natural owner of the data: a writer, an identity, a synthetic client.

Caldas et al., *LEAF*, arxiv.org/abs/1812.01097. Published test rows of an owner are its test rows; a
set without any is divided 80/20 at random per client. With `clients=0` every owner is a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.errors import DataError
from ...core.options import option
from ...core.rng import numpy_generator
from ..base import Dataset, Partitioner, Rows, Split, partitions
from .sorted_rows import holdout, offsets_of


@partitions.register("natural")
@dataclass(frozen=True)
class Natural(Partitioner):
    """One client per owner (writer)."""

    counts_clients: ClassVar[bool] = True
    minimum: int = option(1, "rows an owner must have to be a client (CelebA: 5)", low=1)
    choose: str = option("random", "which owners, if there are more", choices=("random", "first", "largest"))
    train: float = option(0.8, "share for training, if no rows are marked as test", above=0, high=1)

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        rng = numpy_generator(seed, "partition", self.name)
        owners = fit_owners(dataset, self.minimum, clients, self.name)
        if 0 < clients < len(owners):
            owners = self._some(dataset, owners, clients, rng)
        return by_owner(dataset, owners, self.train, rng)

    def _some(
        self, dataset: Dataset, owners: np.ndarray, clients: int, rng: np.random.Generator
    ) -> np.ndarray:
        if self.choose == "random":
            owners = rng.permutation(owners)
        elif self.choose == "largest":
            owner = np.asarray(dataset.owner)
            rows = np.bincount(owner[owner >= 0])
            owners = owners[np.argsort(-rows[owners], kind="stable")]
        return np.sort(owners[:clients])


def fit_owners(dataset: Dataset, minimum: int, clients: int, where: str) -> np.ndarray:
    """Owners with `minimum` rows and at least one to train on, in order; DataError if they are too few."""
    if dataset.owner is None:
        raise DataError(
            f"{where}: the rows of {dataset.name} have no owner; use a set that has (femnist, synthetic)"
        )
    known = dataset.owner >= 0
    rows = np.bincount(dataset.owner[known])
    trains = np.bincount(dataset.owner[known & ~dataset.test], minlength=len(rows))
    fit = np.flatnonzero((rows >= minimum) & (trains > 0))
    if clients > len(fit) or not len(fit):
        raise DataError(
            f"{where}: {dataset.name} has {len(fit)} owners with at least {minimum} rows and one to "
            f"train on, {clients} clients are asked for; use fewer clients or a lower minimum"
        )
    return fit


def by_owner(dataset: Dataset, owners: np.ndarray, train: float, rng: np.random.Generator) -> Split:
    """One client per owner; published test rows if there are any, else a random share per client."""
    owner = np.asarray(dataset.owner)
    if not dataset.test.any():
        return holdout(_rows_of(owner, owners, np.ones_like(dataset.test)), train, rng)
    return Split(_rows_of(owner, owners, ~dataset.test), _rows_of(owner, owners, dataset.test))


def _rows_of(owner: np.ndarray, owners: np.ndarray, chosen: np.ndarray) -> Rows:
    """The chosen rows of each of the (sorted) owners."""
    rows = np.flatnonzero(chosen & np.isin(owner, owners))
    rows = rows[np.argsort(owner[rows], kind="stable")]
    client = np.searchsorted(owners, owner[rows])
    return Rows(rows, offsets_of(np.bincount(client, minlength=len(owners))))
