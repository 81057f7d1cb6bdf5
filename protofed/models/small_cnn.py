"""A small CNN for quick experiments on 8×8, 28×28 and 32×32 images."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from ..core.errors import ConfigError
from ..core.options import option
from .base import Family, Model, families
from .conv import conv_pool_stack, image_shape


@families.register("small_cnn")
@dataclass(frozen=True)
class SmallCnn(Family):
    """Two padded 3×3 convolutions and a linear layer; for images from 4×4 up."""

    width: int = option(16, "channels of the first convolution; the second has twice as many", low=1)
    dim: int = option(50, "size of the embedding", low=1)

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        channels, height, width = image_shape(shape, self.name)
        area = (height // 4) * (width // 4)
        if not area:
            raise ConfigError(f"model {self.name}: expected images of at least 4x4, got {height}x{width}")
        conv = conv_pool_stack(channels, (self.width, 2 * self.width), 3, padding=1)
        fc = nn.Sequential(nn.Flatten(), nn.Linear(2 * self.width * area, self.dim), nn.ReLU())
        return Model(nn.Sequential(OrderedDict(conv=conv, fc=fc)), nn.Linear(self.dim, num_classes))
