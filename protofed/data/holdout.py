"""Samples that clients do not train on: a validation part of their own training rows, and a balanced test.

Both are drawn from the seed alone, so that every method of a comparison holds out the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ..core.data import LocalData
from ..core.rng import numpy_generator
from .base import Rows, Split
from .federated import channels_last
from .loader import Loader


def hold_out(split: Split, labels: np.ndarray, share: float, seed: int) -> Split:
    """Move ⌊share · n⌋ of each client's n training rows to its validation rows.

    Of each class in proportion, as far as whole rows allow; the only row of a class stays in training.
    """
    if not share:
        return split
    owner = np.repeat(np.arange(split.clients), split.train.sizes)
    held = _held(owner, split.train.sizes, labels[split.train.values], share, seed)
    train, kept_out = (_rows(split.train.values[part], owner[part], split.clients) for part in (~held, held))
    return replace(split, train=train, validation=kept_out)


def _held(owner: np.ndarray, sizes: np.ndarray, labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Bool per row. A row's place in its class at the client, r of n_c in random order, gives r / n_c: the
    rows with the highest go. The first of each class (0) goes last."""
    drawn = numpy_generator(seed, "validation").random(len(owner))
    label = labels if labels.ndim == 1 else np.zeros(len(labels), dtype=np.int64)  # masks have no one class
    by_class = np.lexsort((drawn, label, owner))
    starts = np.flatnonzero(
        np.r_[True, (np.diff(owner[by_class]) != 0) | (np.diff(label[by_class]) != 0)][: len(owner)]
    )
    counts = np.diff(np.r_[starts, len(owner)])
    place = np.empty(len(owner))
    place[by_class] = (np.arange(len(owner)) - np.repeat(starts, counts)) / np.repeat(counts, counts)
    by_place = np.lexsort((drawn, -place, owner))
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    wanted = np.repeat(np.floor(share * sizes + 1e-9).astype(np.int64), sizes)
    held = np.zeros(len(owner), dtype=bool)
    held[by_place] = np.arange(len(owner)) - first < wanted
    return held


def _rows(values: np.ndarray, owner: np.ndarray, clients: int) -> Rows:
    return Rows(values, np.r_[0, np.cumsum(np.bincount(owner, minlength=clients))].astype(np.int64))


def hold_out_samples(
    train: Sequence[LocalData], share: float, seed: int
) -> tuple[list[LocalData], list[LocalData]]:
    """The same for samples that lie in tensors: what is trained on, and the validation part."""
    sizes = np.array([len(data) for data in train])
    rows = Rows(np.arange(sizes.sum()), np.r_[0, np.cumsum(sizes)])
    labels = torch.cat([data.y.flatten(1)[:, 0] if data.y.ndim > 1 else data.y for data in train]).cpu()
    split = hold_out(Split(rows, rows), labels.numpy(), share, seed)
    parts = []
    for found in (split.train, split.validation or Rows.of([rows[0][:0]] * len(train))):
        at = [torch.from_numpy(found[k] - rows.offsets[k]).to(data.x.device) for k, data in enumerate(train)]
        parts.append([replace(data, x=data.x[i], y=data.y[i]) for i, data in zip(at, train)])
    return parts[0], [replace(data, augment=None) for data in parts[1]]


def balanced_test(loader: Loader, most: int, seed: int) -> LocalData | None:
    """Test samples of all clients, equally many of each class; None for masks, or where there are none."""
    dataset, split = loader.dataset, loader.split
    if not most or dataset.dense:
        return None
    rows = balanced_rows(np.asarray(dataset.y), split.test.values, most, seed)
    x, y = loader.rows(rows)
    return LocalData(channels_last(x), y) if len(rows) else None


def balanced_samples(test: Sequence[LocalData], most: int, seed: int) -> LocalData | None:
    """The same from samples in tensors; None also where clients' inputs differ in shape."""
    some = [data for data in test if len(data)]
    if not most or not some or some[0].y.ndim > 1 or len({data.x.shape[1:] for data in some}) > 1:
        return None
    x, y = torch.cat([data.x for data in some]), torch.cat([data.y for data in some])
    rows = torch.from_numpy(balanced_rows(y.cpu().numpy(), np.arange(len(y)), most, seed)).to(x.device)
    return LocalData(channels_last(x[rows]), y[rows])


def balanced_rows(labels: np.ndarray, rows: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Some of `rows`, equally many of each class there: `most`, or as many as the rarest class has."""
    drawn = numpy_generator(seed, "balanced").permutation(np.unique(rows))
    classes, counts = np.unique(labels[drawn], return_counts=True)
    each = min(most, int(counts.min())) if len(counts) else 0
    return np.sort(np.concatenate([drawn[labels[drawn] == c][:each] for c in classes])) if each else drawn[:0]
