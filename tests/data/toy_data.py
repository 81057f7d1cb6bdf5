"""Small datasets whose rows can be told by hand."""

from __future__ import annotations

import numpy as np

from protofed.data import Dataset


def toy(per_class: int = 40, classes: int = 10, test_share: float = 0.25, name: str = "toy") -> Dataset:
    """Rows in class order 0,1,2,…,0,1,2,…; x holds the row number; the last rows are test."""
    rows = per_class * classes
    y = np.arange(rows) % classes
    test = np.arange(rows) // classes >= per_class * (1 - test_share)
    x = np.arange(rows, dtype=np.float32)[:, None]
    return Dataset(name, x, y, test, tuple(str(c) for c in range(classes)))
