"""MobileNetV2 (Sandler et al., CVPR 2018) in torchvision's definition."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from ..core.options import option
from ..core.torchvision_shim import import_torchvision
from .base import families
from .conv import image_shape
from .trunk import Trunk, TrunkFamily
from .weights import load_weights


@families.register("mobilenet_v2")
@dataclass(frozen=True)
class MobileNetV2(TrunkFamily):
    """torchvision's MobileNetV2; its classifier, with the dropout, is replaced."""

    pretrained: str = option("", "file of weights for the base (safetensors or torch state dict)")

    def trunk(self, shape: tuple[int, ...]) -> tuple[Trunk, int]:
        channels = image_shape(shape, self.name)[0]
        net = import_torchvision().models.mobilenet_v2(weights=None)
        if channels != 3:
            net.features[0][0] = nn.Conv2d(channels, 32, 3, 2, 1, bias=False)
        layers: Trunk = OrderedDict(features=net.features)
        if self.pretrained:
            load_weights(nn.Sequential(layers), self.pretrained, self.name, skip=("classifier.",))
        return layers | OrderedDict(avgpool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten()), net.last_channel
