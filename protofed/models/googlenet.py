"""GoogLeNet (Szegedy et al., CVPR 2015) in torchvision's definition, without auxiliary heads."""

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


@families.register("googlenet")
@dataclass(frozen=True)
class GoogLeNet(TrunkFamily):
    """torchvision's GoogLeNet without auxiliary heads; its dropout stays before the pooling."""

    pretrained: str = option("", "file of weights for the base (safetensors or torch state dict)")

    def trunk(self, shape: tuple[int, ...]) -> tuple[Trunk, int]:
        channels = image_shape(shape, self.name)[0]
        net = import_torchvision().models.googlenet(weights=None, aux_logits=False, init_weights=True)
        if channels != 3:
            net.conv1.conv = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
        layers: Trunk = OrderedDict()
        for name, layer in net.named_children():
            if layer is not net.fc:
                layers[name] = layer
            if layer is net.avgpool:
                layers["flatten"] = nn.Flatten()
        if self.pretrained:
            skip = ("fc.", "aux1.", "aux2.")
            load_weights(nn.Sequential(layers), self.pretrained, self.name, skip)
        return layers, net.fc.in_features
