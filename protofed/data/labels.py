"""One class per row, and how many rows of each class a client holds."""

from __future__ import annotations

import numpy as np

from .base import Dataset, Rows


def row_labels(dataset: Dataset) -> np.ndarray:
    """[N] class of each row. Dense data: the class with most pixels, class 0 (background) last."""
    if not dataset.dense:
        return np.asarray(dataset.y, dtype=np.int64)
    pixels = pixel_counts(dataset)
    pixels[:, 0] = 0  # background wins only where nothing else is
    return pixels.argmax(axis=1)


def pixel_counts(dataset: Dataset, chunk: int = 256) -> np.ndarray:
    """[N, C] pixels of each class in each mask; void pixels count nowhere."""
    classes = dataset.num_classes
    counts = np.zeros((len(dataset.y), classes), dtype=np.int64)
    for start in range(0, len(dataset.y), chunk):
        masks = np.asarray(dataset.y[start : start + chunk], dtype=np.int64)
        masks = masks.reshape(len(masks), -1)
        row, pixel = np.nonzero(masks >= 0)
        flat = np.bincount(row * classes + masks[row, pixel], minlength=len(masks) * classes)
        counts[start : start + len(masks)] = flat.reshape(-1, classes)
    return counts


def class_counts(dataset: Dataset, rows: Rows) -> np.ndarray:
    """[K, C] rows of each class that each client holds (dense data: by dominant class)."""
    classes = dataset.num_classes
    client = np.repeat(np.arange(len(rows), dtype=np.int64), rows.sizes)
    flat = np.bincount(client * classes + row_labels(dataset)[rows.values], minlength=len(rows) * classes)
    return flat.reshape(len(rows), classes)
