"""FedProto's ResNet18 for CIFAR-10, with the strides of its stem as options.

Tan et al., AAAI 2022, and its released code: 7×7 stem, the embedding is the last stage's output
(512×1×1 for 32×32 images). Model-heterogeneous clients differ in the strides of the first
convolution and the pooling, (2, 2) or (1, 4). The authors start from ImageNet weights except for
the first convolution, its normalisation and the classifier; give such a file as `pretrained`.

Departure: larger images give several positions, which are averaged.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from ..core.options import option
from .base import Family, Model, families
from .conv import image_shape
from .residual import BasicBlock, residual_trunk
from .weights import load_weights


@families.register("fp_resnet18")
@dataclass(frozen=True)
class FpResNet18(Family):
    """FedProto's ResNet18 for CIFAR-10, embedding 512."""

    conv_stride: int = option(2, "stride of the first convolution", low=1)
    pool_stride: int = option(2, "stride of the pooling", low=1)
    pretrained: str = option("", "file of ResNet18 weights; conv1, bn1 and fc in it are not used")

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        channels = image_shape(shape, self.name)[0]
        stem = nn.Conv2d(channels, 64, 7, self.conv_stride, 3, bias=False)
        base = nn.Sequential(
            residual_trunk(BasicBlock, (2, 2, 2, 2), stem, nn.MaxPool2d(3, self.pool_stride, 1))
        )
        if self.pretrained:
            load_weights(base, self.pretrained, self.name, skip=("conv1.", "bn1.", "fc."))
        return Model(base, nn.Linear(512, num_classes))
