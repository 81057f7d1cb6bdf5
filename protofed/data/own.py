"""Samples that the user brings: tensors, arrays, or batches of them such as a DataLoader gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.data import LocalData
from ..core.errors import DataError

Samples = tuple[Tensor, Tensor] | Iterable[tuple[Tensor, Tensor]]


def read_samples(given: Samples, who: str, dtype: torch.dtype, device: torch.device) -> LocalData:
    """Checked samples; `who` names them in errors."""
    x, y = _pair(given, who)
    if len(x) != len(y):
        raise DataError(f"{who}: {len(x)} inputs but {len(y)} labels")
    if not len(x):
        raise DataError(f"{who}: no samples")
    if not torch.isfinite(x).all():
        raise DataError(f"{who}: the inputs hold NaN or infinite values")
    if y.is_floating_point() or int(y.min()) < (0 if y.ndim == 1 else -1):
        raise DataError(f"{who}: labels must be whole numbers from 0 on")
    return LocalData(x.to(device, dtype), y.to(device, torch.int64))


def _pair(given: Any, who: str) -> tuple[Tensor, Tensor]:
    """x and y of everything that was given: two tensors (or arrays), or batches of them."""
    wanted = f"{who}: expected (x, y) tensors, or batches of them such as a DataLoader gives"
    if _is_pair(given):
        return torch.as_tensor(given[0]), torch.as_tensor(given[1])
    if not isinstance(given, Iterable):
        raise DataError(f"{wanted}; got a {type(given).__name__}")
    pairs = list(given)
    if not pairs:
        raise DataError(f"{who}: no samples")
    for pair in pairs:
        if not _is_pair(pair):
            raise DataError(f"{wanted}; an item is a {type(pair).__name__} of something else")
    return tuple(torch.cat([torch.as_tensor(pair[part]) for pair in pairs]) for part in (0, 1))  # type: ignore[return-value]


def _is_pair(item: Any) -> bool:
    """Whether this is (x, y), both with an axis of samples."""
    arrays = isinstance(item, tuple | list) and len(item) == 2
    return arrays and all(isinstance(part, Tensor | np.ndarray) and part.ndim for part in item)


def without_samples(like: LocalData) -> LocalData:
    """The same kind of data, with no row."""
    return LocalData(like.x[:0], like.y[:0])
