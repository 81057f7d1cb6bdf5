"""Samples that the user brings: tensors, arrays, a Dataset, or batches such as a DataLoader gives.

All of them are read once, before training: what a loader shuffles, augments or drops, it does this one time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, default_collate
from torch.utils.data import Dataset as TorchDataset

from ..core.data import LocalData
from ..core.errors import DataError
from ..core.user_files import caller_line, reason

Samples = tuple[Tensor, Tensor] | Iterable[tuple[Tensor, Tensor]] | TorchDataset[Any]


def read_samples(given: Samples, who: str, dtype: torch.dtype, device: torch.device) -> LocalData:
    """Checked samples; `who` names them in errors. Whole numbers stay whole: they may be tokens."""
    x, y = _pair(given, who)
    if len(x) != len(y):
        raise DataError(f"{who}: {len(x)} inputs but {len(y)} labels")
    if not len(x):
        raise DataError(f"{who}: no samples")
    _check_inputs(x, who)
    _check_labels(y, who)
    whole = not x.is_floating_point() and x.dtype != torch.bool
    return LocalData(x.to(device, torch.int64 if whole else dtype), y.to(device, torch.int64))


def _check_inputs(x: Tensor, who: str) -> None:
    if x.ndim == 1:
        raise DataError(
            f"{who}: x has shape {list(x.shape)}, one number per sample; expected [N, features]: "
            "for a single feature give x[:, None]"
        )
    if x.is_complex():
        raise DataError(
            f"{who}: the inputs are complex numbers; give real ones, such as torch.view_as_real(x)"
        )
    if not torch.isfinite(x).all():
        raise DataError(f"{who}: the inputs hold NaN or infinite values")


def _check_labels(y: Tensor, who: str) -> None:
    """One class for each sample, or a mask of them."""
    shape = list(y.shape)
    if y.ndim == 2 and y.shape[1] == 1:
        raise DataError(f"{who}: labels have shape {shape}, expected [N]; give y.squeeze(1)")
    if y.ndim == 2:
        raise DataError(
            f"{who}: labels have shape {shape}, expected [N]: each sample has one class, several at once "
            "(multi-label) are not supported; for one-hot rows give y.argmax(1)"
        )
    if y.ndim > 3:
        raise DataError(f"{who}: labels have shape {shape}, expected [N], or [N, H, W] for masks")
    if y.is_floating_point() or y.is_complex():
        raise DataError(
            f"{who}: labels must be whole numbers from 0 on, got {y.dtype}; give y.long() if they are"
        )
    least = int(y.min())
    if least < (0 if y.ndim == 1 else -1):
        raise DataError(f"{who}: labels must be whole numbers from 0 on, got {least}")


def _pair(given: Any, who: str) -> tuple[Tensor, Tensor]:
    """x and y of everything that was given."""
    wanted = f"{who}: expected (x, y) tensors, a Dataset, or batches such as a DataLoader gives"
    if _is_pair(given):
        return _tensor(given[0], who), _tensor(given[1], who)
    if isinstance(given, TorchDataset):
        given = _batches(given, who)
    if not isinstance(given, Iterable):
        raise DataError(f"{wanted}; got a {type(given).__name__}")
    pairs = list(given)
    if not pairs:
        raise DataError(f"{who}: no samples")
    for pair in pairs:
        if not _is_pair(pair):
            raise DataError(f"{wanted}; {_what(pair)}")
    try:
        return tuple(torch.cat([_tensor(pair[part], who) for pair in pairs]) for part in (0, 1))  # type: ignore[return-value]
    except RuntimeError as error:
        raise DataError(f"{who}: the batches do not fit together: {reason(error)}") from error


def _batches(dataset: TorchDataset[Any], who: str) -> list[Any]:
    """All samples of a Dataset in its order, joined as a DataLoader does it."""
    try:
        with torch.random.fork_rng(devices=[]):  # a loader draws a seed, also without shuffling
            return list(DataLoader(dataset, batch_size=256, collate_fn=default_collate))
    except Exception as error:  # whatever the user's class raises
        line = caller_line(error)
        raise DataError(
            f"{who}: the Dataset cannot be read: {reason(error)}"
            + (f" ({line})" if line else "")
            + "; its items must be (x, y): a tensor (images: add ToTensor) and a whole number"
        ) from error


def _what(item: Any) -> str:
    if isinstance(item, tuple | list):
        return f"an item is a {type(item).__name__} of {', '.join(type(part).__name__ for part in item)}"
    return f"an item is a {type(item).__name__}"


def _tensor(values: Any, who: str) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError) as error:
        raise DataError(f"{who}: an array that torch cannot take: {reason(error)}") from error


def _is_pair(item: Any) -> bool:
    """Whether this is (x, y), both with an axis of samples."""
    arrays = isinstance(item, tuple | list) and len(item) == 2
    return arrays and all(isinstance(part, Tensor | np.ndarray) and part.ndim for part in item)
