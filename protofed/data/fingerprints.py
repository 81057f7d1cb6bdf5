"""Fingerprints of datasets and splits by their content: wherever the files lie and whatever their dates are.

Of inputs (and masks) beyond 256 MB evenly chosen rows are read, with the first and the last: such a set is
known by these rows, all its labels and its shape. All smaller sets are read whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from .base import Dataset, Split

MOST_BYTES = 256 * 1024**2  # of an array that are read
PIECE_BYTES = 4 * 1024**2  # at a time: a memory-mapped array need not fit into memory


def content_of_dataset(dataset: Dataset) -> str:
    """Differs where rows, labels, marks, names or the normalisation do."""
    columns = (dataset.x, dataset.y, dataset.test, dataset.domain, dataset.owner)
    words = (dataset.classes, dataset.domains, dataset.owners, dataset.mean, dataset.std, dataset.augment)
    return content_of_arrays(columns, repr(words))


def content_of_split(split: Split) -> str:
    """Differs where some client trains or tests on other rows."""
    parts = (split.train.values, split.train.offsets, split.test.values, split.test.offsets)
    return content_of_arrays(parts)


def content_of_arrays(arrays: Iterable[np.ndarray | None], words: str = "") -> str:
    """Of types, shapes and values; a missing array is something else than an empty one."""
    found = blake2b(words.encode(), digest_size=16)
    for array in arrays:
        if array is None:
            found.update(b"none")
            continue
        found.update(repr((array.dtype.str, array.shape)).encode())
        for piece in _pieces(array):
            found.update(np.ascontiguousarray(piece).view(np.uint8).data)
    return found.hexdigest()


def _pieces(array: np.ndarray) -> Iterable[np.ndarray]:
    if not array.size:
        return
    row = max(1, array.nbytes // len(array))
    step = max(1, PIECE_BYTES // row)
    if array.ndim > 1 and array.nbytes > MOST_BYTES:
        rows = np.linspace(0, len(array) - 1, max(2, MOST_BYTES // row)).astype(np.int64)
        yield from (array[rows[start : start + step]] for start in range(0, len(rows), step))
    else:
        yield from (array[start : start + step] for start in range(0, len(array), step))
