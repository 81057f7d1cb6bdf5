"""A multi-layer perceptron on flattened inputs of any shape."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch import nn

from ..core.options import option
from .base import Family, Model, families


@families.register("mlp")
@dataclass(frozen=True)
class Mlp(Family):
    """One hidden layer and an embedding layer, both with ReLU; for inputs of any shape."""

    hidden: int = option(64, "width of the hidden layer", low=1)
    dim: int = option(32, "size of the embedding", low=1)
    norm: str = option(
        "none", "layer: normalise hidden units, steadier on tables; none", choices=("none", "layer")
    )

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        base = nn.Sequential(
            nn.Flatten(),
            nn.Linear(prod(shape), self.hidden),
            *((nn.LayerNorm(self.hidden),) if self.norm == "layer" else ()),
            nn.ReLU(),
            nn.Linear(self.hidden, self.dim),
            nn.ReLU(),
        )
        return Model(base, nn.Linear(self.dim, num_classes))
