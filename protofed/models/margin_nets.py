"""The networks of ProtoMargin, "Prototype Guided Federated Learning of Visual Feature Representations".

Michieli and Ozay, arxiv.org/abs/2105.08982. The embedding is the input of the softmax layer: 256,
800 or 256 wide. The paper prints neither padding nor all kernel sizes: here convolutions keep the
image size, which for MNIST gives 857,738 parameters, and CelebA's 3×3 kernels and 84×84 images
follow LEAF.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from math import prod

from torch import nn

from .base import Family, Model, families
from .conv import conv_pool_stack, pooled_area


@families.register("margin_cnn")
@dataclass(frozen=True)
class MarginCnn(Family):
    """ProtoMargin's CNN for MNIST and FEMNIST: padded 5×5 convolutions (32, 64), embedding 256."""

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        features = 64 * pooled_area(shape, (1, 1), self.name)
        fc = nn.Sequential(nn.Flatten(), nn.Linear(features, 256), nn.ReLU())
        conv = conv_pool_stack(shape[0], (32, 64), 5, padding=2)
        return Model(nn.Sequential(OrderedDict(conv=conv, fc=fc)), nn.Linear(256, num_classes))


@families.register("margin_celeba")
@dataclass(frozen=True)
class MarginCelebA(Family):
    """ProtoMargin's CNN for CelebA: four padded 3×3 convolutions of 32, embedding 800 at 84×84."""

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        features = 32 * pooled_area(shape, (1, 1, 1, 1), self.name)
        conv = conv_pool_stack(shape[0], (32,) * 4, 3, padding=1)
        return Model(
            nn.Sequential(OrderedDict(conv=conv, flatten=nn.Flatten())), nn.Linear(features, num_classes)
        )


@families.register("margin_mlp")
@dataclass(frozen=True)
class MarginMlp(Family):
    """ProtoMargin's network for synthetic data: linear layers 128 and 256 with ReLU."""

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        first, second = nn.Linear(prod(shape), 128), nn.Linear(128, 256)
        base = nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU())
        return Model(base, nn.Linear(256, num_classes))
