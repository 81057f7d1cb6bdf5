"""Which rows a rule divides, and what its clients test on.

A set with a test set keeps it: the training rows are divided among the clients, and the test rows of each
class are dealt to the clients that train on it, in proportion to their training rows of that class. No
test row goes to two clients; those of classes that nobody trains on are not used.

With `pool=true` training and test rows are merged and divided together, and a share `train` of each
client's rows, at random, is for training: as FedTGP, FedProx and ProtoMargin print it, and as sets
without test rows are divided anyway.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from ...core.errors import ConfigError
from ...core.options import option, parse_spec
from ..base import Dataset, Partitioner, Rows, Split, partitions
from ..grouped import rank_within
from ..labels import class_counts, row_labels
from .sorted_rows import SortedRows, holdout, offsets_of


@dataclass(frozen=True)
class PoolingPartitioner(Partitioner):
    """A rule that divides the training rows, or with `pool` all rows."""

    pool: bool = option(False, "merge training and test rows, then hold out test rows at each client")
    train: float = option(
        0.75, "share of a client's rows for training, with pool or without a test set", above=0, high=1
    )
    per_class: int | None = option(None, "at most this many training rows of a class at each client", low=1)

    def pools(self, dataset: Dataset) -> bool:
        """Whether all rows are divided together."""
        return self.pool or not dataset.test.any()

    def rows(self, dataset: Dataset) -> np.ndarray:
        """The rows that are divided."""
        if self.pools(dataset):
            return np.arange(len(dataset.x))
        default = next(field.default for field in dataclasses.fields(self) if field.name == "train")
        if self.train != default:
            raise ConfigError(
                f"{self.name}: train={self.train:g} would have no effect, as {dataset.name} has a test set; "
                "leave it out, or add pool=true to merge that set with the training rows"
            )
        return np.flatnonzero(~dataset.test)

    def finish(
        self, dataset: Dataset, given: Rows, rng: np.random.Generator, tests: np.ndarray | None = None
    ) -> Split:
        """The split, from the rows that each client was given; `tests`: rows to test on, default all."""
        if self.pools(dataset):
            split = holdout(given, self.train, rng)
        else:
            tests = np.flatnonzero(dataset.test) if tests is None else tests
            train = holdout(given, 1.0, rng).train
            split = Split(train, deal_test_rows(dataset, train, tests, rng))
        return self.capped(dataset, split)

    def capped(self, dataset: Dataset, split: Split) -> Split:
        """The split with at most `per_class` training rows of a class at each client; test rows stay."""
        if self.per_class is None:
            return split
        return dataclasses.replace(split, train=cap_rows(dataset, split.train, self.per_class))


def deal_test_rows(dataset: Dataset, train: Rows, tests: np.ndarray, rng: np.random.Generator) -> Rows:
    """Test rows of each class, shuffled, for its clients in proportion to their training rows of it."""
    by_class = SortedRows(dataset, tests, rng)
    held = class_counts(dataset, train)
    ends = np.cumsum(held, axis=0) * by_class.counts // np.maximum(1, held.sum(axis=0))
    return by_class.deal(np.diff(ends, axis=0, prepend=0))


def cap_rows(dataset: Dataset, rows: Rows, most: int) -> Rows:
    """The first `most` rows of each class of each client."""
    client = np.repeat(np.arange(len(rows), dtype=np.int64), rows.sizes)
    group = client * dataset.num_classes + row_labels(dataset)[rows.values]
    keep = rank_within(group) < most
    return Rows(rows.values[keep], offsets_of(np.bincount(client[keep], minlength=len(rows))))


def pooled_as_before(written: str) -> str:
    """A rule as a run of an earlier version meant it, when these rules merged training and test rows always.

    >>> pooled_as_before("dirichlet:beta=0.1"), pooled_as_before("nway:n=3")
    ('dirichlet:beta=0.1,pool=true', 'nway:n=3')
    """
    name, options = parse_spec(written)
    if name not in partitions or not issubclass(partitions[name], PoolingPartitioner) or "pool" in options:
        return written
    return f"{written}{',' if options else ':'}pool=true"
