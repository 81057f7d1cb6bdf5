"""HtCNN1 to HtCNN8: FedTGP's heterogeneous CNNs for Fashion-MNIST (its Table 9).

Odd numbers have one 5×5 convolution (32), even ones two (32, 64); the linear layers are 512,
512-512, 1024-512 and 1024-512-512 for each pair in turn. ReLU after every layer.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from torch import nn

from ..core.options import option
from .base import families
from .conv import conv_pool_stack, pooled_area
from .trunk import Trunk, TrunkFamily

_LINEAR = ((512,), (512, 512), (1024, 512), (1024, 512, 512))


@families.register("htcnn")
@dataclass(frozen=True)
class HtCnn(TrunkFamily):
    """One of FedTGP's eight CNNs for 28×28 images: htcnn:1 to htcnn:8."""

    positional: ClassVar[str] = "number"

    number: int = option(2, "which of the eight", low=1, high=8)

    def trunk(self, shape: tuple[int, ...]) -> tuple[Trunk, int]:
        widths = (32,) if self.number % 2 else (32, 64)
        area = pooled_area(shape, [5] * len(widths), f"{self.name}:{self.number}")
        linear: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise((widths[-1] * area, *_LINEAR[(self.number - 1) // 2])):
            linear += [nn.Linear(before, after), nn.ReLU()]
        return OrderedDict(conv=conv_pool_stack(shape[0], widths, 5), fc=nn.Sequential(*linear)), 512
