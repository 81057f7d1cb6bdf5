"""Plain convolutional stacks and their sizes; an image that is too small gives an error naming the family."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

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
