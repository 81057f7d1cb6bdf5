"""ResNet10 as the domain-shift methods train it.

`stem=plvm` is the released code of FedPLVM, which FedPLCC builds on: 5×5 convolution with stride 2
and padding 1, then 3×3 pooling with stride 2. `stem=fpl` is the variant of FPL (Huang et al.,
CVPR 2023): 3×3 convolution with stride 1 and no pooling, for 32×32 images. One BasicBlock in each
of four stages. The embedding is a post-ReLU average and so never negative, which FedPLVM's powers of
cosine similarities rely on.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from ..core.options import option
from .base import Family, Model, families
from .conv import image_shape
from .residual import BasicBlock, residual_trunk
from .weights import load_weights


@families.register("resnet10_plcc")
@dataclass(frozen=True)
class ResNet10Plcc(Family):
    """ResNet10 of FedPLVM, FedPLCC and FPL; embedding 512, never negative."""

    stem: str = option("plvm", "plvm: 5×5 stride 2 and pooling; fpl: 3×3 stride 1", choices=("plvm", "fpl"))
    pretrained: str = option("", "file of weights for the base (safetensors or torch state dict)")

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        channels = image_shape(shape, self.name)[0]
        if self.stem == "plvm":
            stem, pool = nn.Conv2d(channels, 64, 5, 2, 1, bias=False), nn.MaxPool2d(3, 2, 1)
        else:
            stem, pool = nn.Conv2d(channels, 64, 3, 1, 1, bias=False), None
        base = nn.Sequential(residual_trunk(BasicBlock, (1, 1, 1, 1), stem, pool))
        if self.pretrained:
            load_weights(base, self.pretrained, self.name, skip=("fc.",))
        return Model(base, nn.Linear(512, num_classes))
