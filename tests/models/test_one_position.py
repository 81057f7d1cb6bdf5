"""Convolutions whose output is one position train as matrix products: by hand, and against torch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from protofed.models.conv import Conv2d


def both(kernel: int, stride: int, padding: int, size: tuple[int, int]) -> tuple[list[Tensor], list[Tensor]]:
    """Output, gradient of the input and gradient of the weights: ours and torch's."""
    generator = torch.Generator().manual_seed(kernel + stride + padding)
    ours = Conv2d(3, 4, kernel, stride, padding).double()
    torchs = nn.Conv2d(3, 4, kernel, stride, padding, bias=False).double()
    torchs.load_state_dict(ours.state_dict())
    start = torch.randn(5, 3, *size, generator=generator, dtype=torch.float64)
    found = []
    for layer in (ours, torchs):
        x = start.clone().requires_grad_()
        out = layer(x)
        weights = torch.arange(out.numel(), dtype=out.dtype).reshape(out.shape)
        found.append([out, *torch.autograd.grad((out * weights).sum(), [x, layer.weight])])
    return found[0], found[1]


CASES = [(3, 1, 1, (1, 1)), (3, 2, 1, (2, 2)), (3, 2, 1, (1, 2)), (1, 2, 0, (2, 2)), (3, 1, 0, (3, 3))]


@pytest.mark.parametrize(("kernel", "stride", "padding", "size"), CASES)
def test_one_position_equals_torch(kernel: int, stride: int, padding: int, size: tuple[int, int]) -> None:
    ours, torchs = both(kernel, stride, padding, size)
    assert ours[0].shape[2:] == (1, 1)
    for one, two in zip(ours, torchs, strict=True):
        assert torch.allclose(one, two, atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "size"), [(3, 1, 1, (2, 2)), (3, 2, 1, (3, 1)), (3, 1, 1, (1, 4))]
)
def test_more_positions_are_torchs_own(kernel: int, stride: int, padding: int, size: tuple[int, int]) -> None:
    ours, torchs = both(kernel, stride, padding, size)
    assert all(torch.equal(one, two) for one, two in zip(ours, torchs, strict=True))


def test_the_middle_of_the_kernel_by_hand() -> None:
    """On one position with padding 1 only the middle of 3×3 counts: of weights 0 to 8 that is 4; 4 · 2 = 8.
    Of 2×2 positions with stride 2 it is the lower right part: 4·1 + 5·2 + 7·3 + 8·4 = 67."""
    layer = Conv2d(1, 1, 3, 1, 1)
    wide = Conv2d(1, 1, 3, 2, 1)
    for one in (layer, wide):
        one.weight.data = torch.arange(9.0).reshape(1, 1, 3, 3)
    assert layer(torch.full((1, 1, 1, 1), 2.0)).item() == 8.0
    assert wide(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).item() == 67.0


def test_only_while_it_trains() -> None:
    """In eval mode, where multiply-adds are counted and models exported, it stays a convolution."""
    layer = Conv2d(2, 3, 3, 1, 1)
    counts = []
    for training in (True, False):
        layer.train(training)
        with FlopCounterMode(display=False) as counter:
            layer(torch.zeros(1, 2, 1, 1))
        counts.append(counter.get_total_flops())
    assert counts == [2 * 2 * 3, 2 * 2 * 3 * 9]
