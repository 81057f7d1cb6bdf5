"""One class per row, and how many rows of each class a client holds."""

from __future__ import annotations

import numpy as np

from ..core.errors import DataError
from .base import VOID, Dataset, Rows

MANY = 100  # so many classes may be numbered with gaps


def row_labels(dataset: Dataset) -> np.ndarray:
    """[N] class of each row. Dense data: the class with most pixels, class 0 (background) last."""
    if not dataset.dense:
        return np.asarray(dataset.y, dtype=np.int64)
    pixels = pixel_counts(dataset)
    pixels[:, 0] = 0  # background wins only where nothing else is
    return np.asarray(pixels.argmax(axis=1))


def numbered_classes(y: np.ndarray, where: str) -> np.ndarray:
    """Names of classes known by their numbers alone, 0 to the largest; DataError if hardly any occur."""
    most, found = int(y.max(initial=0)), len(np.unique(y))
    if most >= MANY and 10 * found < most:
        raise DataError(
            f"{where}: labels go up to {most}, but only {found} different ones occur; number the classes "
            f"from 0 to {found - 1}, or name them"
        )
    return np.arange(most + 1).astype(str)


def pixel_counts(dataset: Dataset, chunk: int = 256) -> np.ndarray:
    """[N, C] pixels of each class in each mask; void pixels count nowhere."""
    classes = dataset.num_classes
    counts = np.zeros((len(dataset.y), classes), dtype=np.int64)
    for start in range(0, len(dataset.y), chunk):
        masks = np.asarray(dataset.y[start : start + chunk], dtype=np.int64).reshape(-1, dataset.y[0].size)
        bins = masks - VOID + np.arange(len(masks))[:, None] * (classes + 1)  # void is bin 0 of each row
        flat = np.bincount(bins.ravel(), minlength=len(masks) * (classes + 1))
        counts[start : start + len(masks)] = flat.reshape(-1, classes + 1)[:, 1:]
    return counts


def class_counts(dataset: Dataset, rows: Rows) -> np.ndarray:
    """[K, C] rows of each class that each client holds (dense data: by dominant class)."""
    classes = dataset.num_classes
    client = np.repeat(np.arange(len(rows), dtype=np.int64), rows.sizes)
    flat = np.bincount(client * classes + row_labels(dataset)[rows.values], minlength=len(rows) * classes)
    return flat.reshape(len(rows), classes)
