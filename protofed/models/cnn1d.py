"""A small 1-d CNN for series [channels, length]: signals of sensors, measurements over time."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from ..core.errors import ConfigError
from ..core.options import option
from .base import Family, Model, families


def series_shape(shape: tuple[int, ...], who: str) -> tuple[int, int]:
    """Channels and length, or one clear line if the input is no series."""
    if len(shape) != 2:
        raise ConfigError(
            f"model {who}: expected series of shape (channels, length), got {shape}; use the model 'mlp' for "
            "tables, 'small_cnn' for images (one channel: x[:, None])"
        )
    return shape[0], shape[1]


class MeanOverTime(nn.Module):
    """[B, F, L] to [B, F]: series of any length give embeddings of one size."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(-1)


@families.register("cnn1d")
@dataclass(frozen=True)
class Cnn1d(Family):
    """Two 1-d convolutions with stride 2, averaged over time, and a linear layer; for series."""

    width: int = option(32, "channels of the first convolution; the second has twice as many", low=1)
    kernel: int = option(5, "length of the filters", low=1)
    dim: int = option(32, "size of the embedding", low=1)

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        channels, _ = series_shape(shape, self.name)
        pad = self.kernel // 2
        base = nn.Sequential(
            nn.Conv1d(channels, self.width, self.kernel, stride=2, padding=pad),
            nn.ReLU(),
            nn.Conv1d(self.width, 2 * self.width, self.kernel, stride=2, padding=pad),
            nn.ReLU(),
            MeanOverTime(),
            nn.Linear(2 * self.width, self.dim),
            nn.ReLU(),
        )
        return Model(base, nn.Linear(self.dim, num_classes))
