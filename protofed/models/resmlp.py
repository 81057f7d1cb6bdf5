"""Models for tables beside `mlp`: a residual perceptron with layer norms, and a linear one."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch import Tensor, nn

from ..core.options import option
from .base import Family, Model, families


class Residual(nn.Module):
    """x + f(x), where f normalises first."""

    def __init__(self, width: int):
        super().__init__()
        layers = (nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.inner = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.inner(x)
        return out


@families.register("resmlp")
@dataclass(frozen=True)
class ResMlp(Family):
    """Residual blocks with layer norms and an embedding layer with ReLU; for tables."""

    width: int = option(64, "width of the blocks", low=1)
    blocks: int = option(2, "residual blocks", low=1)
    dim: int = option(32, "size of the embedding", low=1)

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        base = nn.Sequential(
            nn.Flatten(),
            nn.Linear(prod(shape), self.width),
            *(Residual(self.width) for _ in range(self.blocks)),
            nn.LayerNorm(self.width),
            nn.Linear(self.width, self.dim),
            nn.ReLU(),
        )
        return Model(base, nn.Linear(self.dim, num_classes))


@families.register("linear")
@dataclass(frozen=True)
class LinearModel(Family):
    """A linear embedding and a linear head: the baseline for tables and features."""

    dim: int = option(32, "size of the embedding", low=1)

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        base = nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), self.dim))
        return Model(base, nn.Linear(self.dim, num_classes))
