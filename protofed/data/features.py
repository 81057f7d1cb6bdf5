"""What is odd about inputs: features that are all equal, or far from the scale on which networks train."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .base import Dataset

LARGE = 100.0  # normalised inputs stay far below
MOST_ROWS = 500  # of a data set that are looked at


def odd_features(parts: Sequence[Tensor], name: str) -> list[str]:
    """Warnings about the inputs of all clients, or of a data set as one part; `name` stands in front.

    Whole numbers are tokens, which have no scale.
    """
    parts = [part for part in parts if len(part) and part.is_floating_point()]
    if not parts:
        return []
    low = torch.stack([part.amin(0) for part in parts]).amin(0) if _alike(parts) else None
    high = torch.stack([part.amax(0) for part in parts]).amax(0) if low is not None else None
    largest = max(float(part.abs().max()) for part in parts)
    found = []
    if largest > LARGE:
        found.append(
            f"{name}: inputs go up to {largest:.4g}; networks train badly on such numbers: scale them first, "
            "for example to mean 0 and standard deviation 1 for each feature"
        )
    if low is not None and high is not None and sum(len(part) for part in parts) > 1:
        found += _constant(low == high, name)
    return found


def _constant(same: Tensor, name: str) -> list[str]:
    """All inputs are equal, or some columns of a table are."""
    if bool(same.all()):
        return [f"{name}: all inputs are equal; there is nothing to tell classes apart by"]
    columns = same.nonzero().flatten().tolist() if same.ndim == 1 else []
    if not columns:
        return []
    listed = ", ".join(map(str, columns[:5])) + (", …" if len(columns) > 5 else "")
    return [f"{name}: {len(columns)} of {len(same)} features are constant (columns {listed}); leave them out"]


def _alike(parts: Sequence[Tensor]) -> bool:
    return len({tuple(part.shape[1:]) for part in parts}) == 1


def sample_rows(dataset: Dataset) -> Tensor:
    """Some rows, spread over the data set, as far as they are neither whole numbers nor normalised later."""
    if dataset.x.dtype.kind != "f" or dataset.mean is not None:
        return torch.empty(0)
    rows = np.unique(np.linspace(0, len(dataset.x) - 1, MOST_ROWS).astype(np.int64))
    return torch.from_numpy(np.asarray(dataset.x[rows], dtype=np.float32))
