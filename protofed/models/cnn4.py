"""The 4-layer CNN of McMahan et al., as FedTGP uses it: 924,708 parameters for 32×32 RGB and C=100."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn

from .base import families
from .conv import conv_pool_stack, pooled_area
from .trunk import Trunk, TrunkFamily


@families.register("cnn4")
@dataclass(frozen=True)
class Cnn4(TrunkFamily):
    """Two 5×5 convolutions (32, 64), a linear layer to 512 and the head."""

    def trunk(self, shape: tuple[int, ...]) -> tuple[Trunk, int]:
        features = 64 * pooled_area(shape, (5, 5), self.name)
        fc = nn.Sequential(nn.Flatten(), nn.Linear(features, 512), nn.ReLU())
        return OrderedDict(conv=conv_pool_stack(shape[0], (32, 64), 5), fc=fc), 512
