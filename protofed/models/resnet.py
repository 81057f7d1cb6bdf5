"""ResNets with ImageNet stems (7×7 stride 2, 3×3 pooling stride 2), as FedTGP trains them at 32×32.

Depths 18 to 152 are torchvision's definitions; 4, 6, 8 and 10 have one BasicBlock in each of 1 to 4
stages (Zhong et al. 2017). No pretraining unless a file of weights is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from ..core.errors import ConfigError
from ..core.options import option
from .base import families
from .conv import image_shape
from .residual import WIDTHS, BasicBlock, Bottleneck, residual_trunk
from .trunk import Trunk, TrunkFamily
from .weights import load_weights

_BASIC = {
    4: (1,),
    6: (1, 1),
    8: (1, 1, 1),
    10: (1, 1, 1, 1),
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
}
_BOTTLENECK = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


@families.register("resnet")
@dataclass(frozen=True)
class ResNet(TrunkFamily):
    """ResNet with an ImageNet stem: resnet:18, resnet:50, …"""

    positional: ClassVar[str] = "depth"

    depth: int = option(18, "4, 6, 8, 10, 18, 34, 50, 101 or 152")
    pretrained: str = option("", "file of weights for the base (safetensors or torch state dict)")

    def __post_init__(self) -> None:
        if self.depth not in _BASIC | _BOTTLENECK:
            known = ", ".join(map(str, _BASIC | _BOTTLENECK))
            raise ConfigError(f"model resnet: depth must be one of {known}, got {self.depth}")

    def trunk(self, shape: tuple[int, ...]) -> tuple[Trunk, int]:
        channels = image_shape(shape, self.name)[0]
        block = BasicBlock if self.depth in _BASIC else Bottleneck
        counts = (_BASIC | _BOTTLENECK)[self.depth]
        stem = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
        layers = residual_trunk(block, counts, stem, nn.MaxPool2d(3, 2, 1))
        if self.pretrained:
            load_weights(nn.Sequential(layers), self.pretrained, f"{self.name}:{self.depth}", skip=("fc.",))
        return layers, WIDTHS[len(counts) - 1] * block.expansion
