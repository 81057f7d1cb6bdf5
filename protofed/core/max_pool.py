"""2×2 max-pooling that is quick where no gradient is needed: in tests and prototype passes.

torch's kernel also records where each maximum lay, which only a backward pass wants, and is slow for few
channels in channels_last order. The values are the same to the bit.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MaxPool2(nn.MaxPool2d):
    """`nn.MaxPool2d(2)`: an odd last row or column is left out."""

    def __init__(self) -> None:
        super().__init__(2)

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            out: Tensor = super().forward(x)
            return out
        height, width = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2
        taller = torch.maximum(x[..., 0:height:2, :width], x[..., 1:height:2, :width])
        return torch.maximum(taller[..., ::2], taller[..., 1::2])
