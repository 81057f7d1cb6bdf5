"""Families as FedTGP builds them: any trunk, features pooled to one size K, a small head.

Zhang et al., AAAI 2024, arxiv.org/abs/2401.03230. The classifier of a published architecture is
replaced by AdaptiveAvgPool1d(K) over the feature vector, which averages wide vectors and repeats
entries of narrow ones, and by a head. Heads with a hidden layer make the group HtC4; the released
code also puts a ReLU after their logits (`relu_logits`, off here).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import nn

from ..core.options import option
from .base import Family, Model

Trunk = OrderedDict[str, nn.Module]  # layers in the order of their application, by name


@dataclass(frozen=True)
class TrunkFamily(Family):
    """A trunk that ends in a feature vector, pooled to `dim`, and a head of linear layers."""

    dim: int = option(512, "size K of the embedding, reached by average pooling of the features", low=1)
    head: tuple[int, ...] = option((), "widths of hidden layers in the head, joined by +")
    relu_logits: bool = option(False, "ReLU after the logits, as FedTGP's code has it for HtC4")

    @abstractmethod
    def trunk(self, shape: tuple[int, ...]) -> tuple[Trunk, int]:
        """The layers up to the feature vector, and its width."""

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        layers, width = self.trunk(shape)
        if width != self.dim:
            layers["pool"] = nn.AdaptiveAvgPool1d(self.dim)
        return Model(nn.Sequential(layers), make_head(self.dim, self.head, num_classes, self.relu_logits))


def make_head(dim: int, hidden: Sequence[int], num_classes: int, relu_logits: bool = False) -> nn.Module:
    """Linear layers with ReLU between them; a plain Linear if there is but one."""
    layers: list[nn.Module] = []
    for before, after in pairwise((dim, *hidden, num_classes)):
        layers += [nn.Linear(before, after), nn.ReLU()]
    if not relu_logits:
        layers.pop()
    return layers[0] if len(layers) == 1 else nn.Sequential(*layers)
