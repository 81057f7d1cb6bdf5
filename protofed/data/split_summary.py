"""What a split looks like, in numbers and in lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .base import Dataset, Split
from .labels import class_counts

MOST_COMPARED = 2**29  # bytes of inputs among which copies are looked for


class SplitSummary(NamedTuple):
    """Rows of each class per client, and the text that a terminal shows."""

    train: np.ndarray  # [K, C]
    test: np.ndarray  # [K, C]
    lines: list[str]


def describe_split(dataset: Dataset, split: Split, most: int = 50) -> SplitSummary:
    """Counts and text; at most `most` clients are listed one by one."""
    train, test = class_counts(dataset, split.train), class_counts(dataset, split.test)
    lines = [
        _headline(dataset, split),
        _sizes(train.sum(axis=1), "training"),
        _sizes(test.sum(axis=1), "test"),
    ]
    lines.append(_spread(train))
    lines += _oddities(dataset, split, train, test)
    lines += [
        _client(dataset, split, client, train[client], test[client])
        for client in range(min(most, split.clients))
    ]
    if split.clients > most:
        lines.append(f"… and {split.clients - most} more clients")
    return SplitSummary(train, test, lines)


def test_set_notes(dataset: Dataset, split: Split) -> list[str]:
    """What a reader must know of the test set: that some of it was trained on, that it was pooled, or how
    much of it is not used."""
    seen = _trained_on(dataset, split)
    notes = []
    if seen:
        notes.append(
            f"warning: {seen:,} of {len(np.unique(split.test.values)):,} test rows of {dataset.name} have "
            "the same inputs as a training row of some client: they say nothing of new ones; remove copies"
        )
    return [*notes, *_pool_notes(dataset, split)]


def _trained_on(dataset: Dataset, split: Split) -> int:
    """Test rows whose inputs are those of a training row; 0 where there is too much to look through."""
    if dataset.x.nbytes > MOST_COMPARED:
        return 0
    train = {dataset.x[row].tobytes() for row in np.unique(split.train.values)}
    return sum(dataset.x[row].tobytes() in train for row in np.unique(split.test.values))


def _pool_notes(dataset: Dataset, split: Split) -> list[str]:
    if not dataset.test.any():
        return []
    total, pooled = int(dataset.test.sum()), int(dataset.test[split.train.values].sum())
    notes = []
    if pooled:
        notes.append(
            f"pooled: {pooled:,} of {len(split.train.values):,} training rows are of the test set of "
            f"{dataset.name}; test rows are held out at each client"
        )
    if pooled and dataset.per_class is not None:
        notes.append(
            f"warning: data:per_class={dataset.per_class} caps the training set only, and {total:,} test "
            "rows were pooled with it; for few shots at each client use per_class of the partition"
        )
    used = np.zeros(len(dataset.test), dtype=bool)
    used[split.train.values] = used[split.test.values] = True
    if unused := int((dataset.test & ~used).sum()):
        notes.append(f"{unused:,} of the {total:,} test rows of {dataset.name} are not used")
    return notes


def one_class_clients(dataset: Dataset, split: Split, clients: Iterable[int]) -> int | None:
    """How many of these clients train on a single class; None for labels of pixels."""
    if dataset.dense:
        return None
    labels = np.asarray(dataset.y)
    return sum(len(np.unique(labels[split.train[client]])) == 1 for client in clients)


def _headline(dataset: Dataset, split: Split) -> str:
    used = len(np.unique(np.concatenate([split.train.values, split.test.values])))
    return (
        f"{dataset.name}: {split.clients} clients, {dataset.num_classes} classes, "
        f"{used:,} of {len(dataset.x):,} rows used"
    )


def _sizes(sizes: np.ndarray, part: str) -> str:
    return (
        f"{part} rows per client: {sizes.min():,} to {sizes.max():,}, "
        f"mean {sizes.mean():,.1f}, std {sizes.std():,.1f}"
    )


def _spread(train: np.ndarray) -> str:
    held = (train > 0).sum(axis=1)
    return f"training classes per client: {held.min()} to {held.max()}, mean {held.mean():.2f}"


def _oddities(dataset: Dataset, split: Split, train: np.ndarray, test: np.ndarray) -> list[str]:
    lines = [*dataset.notes, *test_set_notes(dataset, split)]
    unseen = (test > 0) & (train == 0)
    if unseen.any():
        clients, rows = unseen.any(axis=1).sum(), test[unseen].sum()
        lines.append(f"{clients} clients test on classes that they do not train on ({rows:,} rows)")
    untested = int((split.test.sizes == 0).sum())
    if untested:
        lines.append(f"{untested} clients have no test rows")
    shared = len(split.train.values) - len(np.unique(split.train.values))
    if shared:
        lines.append(f"{shared:,} training rows are held more than once")
    absent = np.flatnonzero(train.sum(axis=0) == 0)
    if len(absent):
        names = ", ".join(dataset.classes[c] for c in absent[:5])
        lines.append(
            f"{len(absent)} classes are nobody's training data: {names}" + ("…" if len(absent) > 5 else "")
        )
    return lines


def _client(dataset: Dataset, split: Split, client: int, train: np.ndarray, test: np.ndarray) -> str:
    named = [f"{dataset.classes[cls]}:{train[cls]}" for cls in np.flatnonzero(train)]
    mix = (", " if any(" " in one for one in named) else " ").join(named)
    owner = owner_name(dataset, split, client)
    who = f"client {client} ({owner})" if owner else f"client {client}"
    return f"{who}: {train.sum()} + {test.sum()} rows; {mix}"


def owner_name(dataset: Dataset, split: Split, client: int) -> str:
    """The name of the one owner of all that a client trains on; empty without."""
    return _one_of(dataset.owners, dataset.owner, split.train[client])


def domain_name(dataset: Dataset, split: Split, client: int) -> str:
    """The name of the one domain of all that a client trains on; empty without."""
    return _one_of(dataset.domains, dataset.domain, split.train[client])


def _one_of(names: Sequence[str], index: np.ndarray | None, rows: np.ndarray) -> str:
    if index is None or not names:
        return ""
    found = np.unique(index[rows])
    return names[found[0]] if len(found) == 1 and found[0] >= 0 else ""
