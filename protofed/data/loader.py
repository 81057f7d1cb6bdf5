"""Tensors of one client: rows gathered, scaled, normalised and cast when asked for, nothing before.

Clients that are never asked for cost nothing, so a million of them may be registered.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from .base import Dataset, Split


class Loader:
    """Training and test tensors of each client of a split."""

    def __init__(
        self,
        dataset: Dataset,
        split: Split,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ):
        self.dataset = dataset
        self.split = split
        self.dtype = dtype
        self.device = torch.device(device)

    @property
    def clients(self) -> int:
        """Number of clients of the split."""
        return self.split.clients

    def train(self, client: int) -> tuple[Tensor, Tensor]:
        """x [N, …] and y [N] (dense: [N, H, W]) that the client trains on."""
        return self.rows(self.split.train[client])

    def test(self, client: int) -> tuple[Tensor, Tensor]:
        """The same of what it tests on; N may be 0."""
        return self.rows(self.split.test[client])

    def validation(self, client: int) -> tuple[Tensor, Tensor]:
        """The same of what it holds out of its training samples; N may be 0."""
        held = self.split.validation
        return self.rows(np.empty(0, np.int64) if held is None else held[client])

    def rows(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Inputs and labels of any rows of the dataset (public or merged data)."""
        x = torch.from_numpy(np.asarray(self.dataset.x[rows])).to(self.device)
        y = torch.from_numpy(np.asarray(self.dataset.y[rows]).astype(np.int64, copy=False))
        return normalise(x, self.dataset, self.dtype), y.to(self.device)

    def two_inputs(self) -> Tensor:
        """Two samples on which models are tried: of tokens, those with the largest; else the first."""
        x = self.dataset.x
        whole = x.dtype.kind in "iu" and x.dtype != np.uint8
        first = int(np.argmax(x.reshape(len(x), -1).max(axis=1))) if whole else 0
        return self.rows(np.array([first, min(1, len(x) - 1)]))[0]

    @cached_property
    def black(self) -> Tensor:
        """[channels] what a pixel of value 0 becomes: the padding of random crops."""
        zero = torch.zeros(1, self.dataset.shape[0], 1, 1)
        return normalise(zero, self.dataset, self.dtype)[0, :, 0, 0].to(self.device)


def normalise(x: Tensor, dataset: Dataset, dtype: torch.dtype = torch.float32) -> Tensor:
    """Bytes to [0, 1] by 1/255; then (x − mean) / std per channel (axis 1); always a new tensor. Other whole
    numbers are tokens, and stay."""
    scale = x.dtype == torch.uint8
    if not scale and not x.dtype.is_floating_point:
        return x.to(torch.int64, copy=True)
    x = x.to(dtype, copy=True)
    if scale:
        x.div_(255)
    if dataset.mean is not None and dataset.std is not None:
        shape = (1, -1) + (1,) * (x.ndim - 2)
        x.sub_(torch.tensor(dataset.mean, dtype=dtype, device=x.device).view(shape))
        x.div_(torch.tensor(dataset.std, dtype=dtype, device=x.device).view(shape))
    return x
