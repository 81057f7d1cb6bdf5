"""Rows sorted by class, from which partitioners cut consecutive pieces."""

from __future__ import annotations

import numpy as np

from ..base import Dataset, Rows, Split
from ..labels import row_labels


class SortedRows:
    """Rows of a dataset, grouped by class, or by other `labels`; within a class in row order, or shuffled
    by `rng`."""

    def __init__(
        self,
        dataset: Dataset,
        rows: np.ndarray | None = None,
        rng: np.random.Generator | None = None,
        labels: np.ndarray | None = None,
    ):
        labels = row_labels(dataset) if labels is None else labels
        rows = np.arange(len(labels)) if rows is None else rows
        if rng is not None:
            rows = rng.permutation(rows)
        self.rows = rows[np.argsort(labels[rows], kind="stable")]
        self.counts = np.bincount(labels[rows], minlength=dataset.num_classes)
        self.starts = np.cumsum(self.counts) - self.counts

    def cut(
        self,
        client: np.ndarray,
        cls: np.ndarray,
        first: np.ndarray,
        count: np.ndarray,
        clients: int,
        wrap: bool = False,
    ) -> Rows:
        """Piece p gives rows [first, first + count) of class `cls` to `client` (all arrays over pieces).

        With `wrap`, rows are counted from the start of the class again after its end.
        """
        order = np.argsort(client, kind="stable")
        count = count[order]
        ends = np.cumsum(count)
        position = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first[order] - (ends - count), count)
        cls = np.repeat(cls[order], count)
        if wrap:
            position %= self.counts[cls]
        sizes = np.bincount(client[order], weights=count, minlength=clients).astype(np.int64)
        return Rows(self.rows[self.starts[cls] + position], offsets_of(sizes))

    def deal(self, amounts: np.ndarray) -> Rows:
        """Consecutive pieces of the sizes `amounts` [K, C], clients in order within each class."""
        first = np.cumsum(amounts, axis=0) - amounts
        client, cls = np.nonzero(amounts)
        return self.cut(client, cls, first[client, cls], amounts[client, cls], len(amounts))


def offsets_of(sizes: np.ndarray) -> np.ndarray:
    """Where each client's rows begin, and the total."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def holdout(rows: Rows, train: float, rng: np.random.Generator) -> Split:
    """Divide each client's rows at random, not stratified: ⌊train·n⌋ to train on, but at least one."""
    client = np.repeat(np.arange(len(rows)), rows.sizes)
    values = rows.values[np.lexsort((rng.random(len(client)), client))]
    keep = np.minimum(rows.sizes, np.maximum(1, np.floor(train * rows.sizes + 1e-9).astype(np.int64)))
    is_train = np.arange(len(client)) - rows.offsets[client] < keep[client]
    return Split(
        Rows(values[is_train], offsets_of(keep)),
        Rows(values[~is_train], offsets_of(rows.sizes - keep)),
    )
