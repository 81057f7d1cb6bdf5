"""Plain convolutional stacks and their sizes; an image that is too small gives an error naming the family.

`Conv2d` is torch's, but for one thing: where its output is a single position, as in the last layers of a
residual network on small images, it trains as the matrix product that it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn
from torch.nn.functional import linear

from ..core.errors import ConfigError
from ..core.max_pool import MaxPool2


def image_shape(shape: tuple[int, ...], who: str) -> tuple[int, int, int]:
    """Channels, height and width, or one clear line if the input is no image."""
    if len(shape) != 3:
        raise ConfigError(
            f"model {who}: expected images of shape (channels, height, width), got {shape}; "
            "use the model 'mlp' for other inputs"
        )
    return shape[0], shape[1], shape[2]


def pooled_area(shape: tuple[int, ...], kernels: Sequence[int], who: str) -> int:
    """Positions left after unpadded convolutions, each followed by 2×2 pooling. Kernel 1: padded ones.

    >>> pooled_area((1, 28, 28), (5, 5), "fp_cnn")
    16
    """
    _, height, width = image_shape(shape, who)
    for kernel in kernels:
        height, width = (height - kernel + 1) // 2, (width - kernel + 1) // 2
    if height < 1 or width < 1:
        raise ConfigError(
            f"model {who}: images of {shape[1]}x{shape[2]} are too small for {len(kernels)} unpadded "
            f"convolutions with pooling; use 'small_cnn' or larger images"
        )
    return height * width


def conv_pool_stack(channels: int, widths: Sequence[int], kernel: int, padding: int = 0) -> nn.Sequential:
    """Convolution, ReLU and 2×2 pooling for each width.

    The two change places, as a maximum may be taken before or after: values and gradients are the same to the
    bit, and ReLU has a quarter of the numbers.
    """
    layers: list[nn.Module] = []
    for before, after in pairwise((channels, *widths)):
        layers += [nn.Conv2d(before, after, kernel, padding=padding), MaxPool2(), nn.ReLU()]
    return nn.Sequential(*layers)


class Conv2d(nn.Conv2d):
    """A convolution without bias; equal to rounding wherever it trains as a matrix product.

    A 3×3 kernel with padding 1 on an image of one position meets that position with its middle alone: the
    other eight ninths are multiplied by padding, and a convolution spends most of its time on them. Tests,
    counts of multiply-adds and exported models go the usual way.
    """

    def __init__(self, before: int, after: int, kernel: int, stride: int = 1, padding: int = 0):
        super().__init__(before, after, kernel, stride, padding, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or x.ndim != 4:
            return super().forward(x)
        rows, columns = (self._met(axis, size) for axis, size in enumerate(x.shape[2:]))
        if rows is None or columns is None:
            return super().forward(x)
        seen = x.permute(0, 2, 3, 1)[:, rows[0], columns[0]]  # images and kernels are in channels_last order
        kernel = self.weight.permute(0, 2, 3, 1)[:, rows[1], columns[1]]
        return linear(seen.flatten(1), kernel.flatten(1))[:, :, None, None]

    def _met(self, axis: int, size: int) -> tuple[slice, slice] | None:
        """Which of an axis' positions meet which of the kernel's, if the output has one position there."""
        kernel, stride, padding = self.kernel_size[axis], self.stride[axis], int(self.padding[axis])
        if not 0 <= size + 2 * padding - kernel < stride:
            return None
        last = min(kernel, size + padding)
        return slice(0, last - padding), slice(padding, last)
