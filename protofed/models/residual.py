"""Residual blocks and trunks (He et al., CVPR 2016) with torchvision's layer names and initial values.

State dicts of torchvision's ResNets therefore load as they are. Small departures from the usual
depths: fewer than four stages for ResNet4, 6 and 8.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .conv import Conv2d

WIDTHS = (64, 128, 256, 512)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, before: int, width: int, stride: int):
        super().__init__()
        self.conv1 = Conv2d(before, width, 3, stride, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = Conv2d(width, width, 3, 1, 1)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(before, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out)) + self.downsample(x)
        return torch.relu(out)


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions beside a shortcut; the stride sits in the 3×3 one."""

    expansion = 4

    def __init__(self, before: int, width: int, stride: int):
        super().__init__()
        after = width * self.expansion
        self.conv1 = Conv2d(before, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = Conv2d(width, width, 3, stride, 1)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = Conv2d(width, after, 1)
        self.bn3 = nn.BatchNorm2d(after)
        self.downsample = _shortcut(before, after, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.relu(self.bn1(self.conv1(x)))
        out = torch.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out)) + self.downsample(x)
        return torch.relu(out)


def residual_trunk(
    block: type[BasicBlock] | type[Bottleneck],
    counts: Sequence[int],
    stem: nn.Conv2d,
    pool: nn.Module | None,
) -> OrderedDict[str, nn.Module]:
    """Stem convolution, optional pooling, the stages, and the average over positions."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(conv1=stem, bn1=nn.BatchNorm2d(stem.out_channels))
    layers["relu"] = nn.ReLU()
    if pool is not None:
        layers["maxpool"] = pool
    before = stem.out_channels
    for stage, (count, width) in enumerate(zip(counts, WIDTHS, strict=False)):
        blocks = []
        for position in range(count):
            blocks.append(block(before, width, stride=2 if stage and not position else 1))
            before = width * block.expansion
        layers[f"layer{stage + 1}"] = nn.Sequential(*blocks)
    layers["avgpool"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    for layer in layers.values():
        layer.apply(_initialise)
    return layers


def _shortcut(before: int, after: int, stride: int) -> nn.Module:
    if stride == 1 and before == after:
        return nn.Identity()
    return nn.Sequential(Conv2d(before, after, 1, stride), nn.BatchNorm2d(after))


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
