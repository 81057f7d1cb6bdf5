"""The quick 2×2 pooling equals torch's, with and without gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from protofed.core.max_pool import MaxPool2


@pytest.mark.parametrize("size", [(4, 4), (5, 7), (24, 24)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_equal_to_torch_to_the_bit(size: tuple[int, int], layout: torch.memory_format) -> None:
    x = torch.randn(3, 10, *size, generator=torch.Generator().manual_seed(0)).to(memory_format=layout)
    x[0, 0, 0, 0] = float("nan")
    with torch.no_grad():
        quick = MaxPool2()(x)
    torch.testing.assert_close(quick, nn.MaxPool2d(2)(x), rtol=0, atol=0, equal_nan=True)


def test_ties_have_the_gradient_of_torch() -> None:
    """All four values are equal: torch gives the gradient to the first, not a quarter to each."""
    x = torch.ones(1, 1, 2, 2, requires_grad=True)
    MaxPool2()(x).sum().backward()
    assert x.grad is not None
    assert x.grad.flatten().tolist() == [1.0, 0.0, 0.0, 0.0]
