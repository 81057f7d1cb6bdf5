"""A small LSTM for series [channels, length]. Its states, averaged over time, make the embedding.

Hochreiter and Schmidhuber, *Long short-term memory* (1997), with the forget gate of Gers et al. Written out
step by step: torch's fused LSTM has no form for stacked clients, this one runs on every engine alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..core.options import option
from .base import Family, Model, families
from .cnn1d import series_shape


class LstmStates(nn.Module):
    """[B, C, L] to [B, H]: the mean of the hidden states over time."""

    def __init__(self, channels: int, hidden: int):
        super().__init__()
        self.inputs = nn.Linear(channels, 4 * hidden)
        self.states = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gates = self.inputs(x.transpose(1, 2))  # of all steps at once: [B, L, 4H]
        h = c = torch.zeros_like(gates[:, 0].chunk(4, -1)[0])
        total = h
        for step in gates.unbind(1):
            i, f, g, o = (step + self.states(h)).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            total = total + h
        mean: Tensor = total / gates.shape[1]
        return mean


@families.register("lstm")
@dataclass(frozen=True)
class Lstm(Family):
    """One LSTM layer, its states averaged over time, and a linear layer; for series."""

    hidden: int = option(32, "size of the hidden state", low=1)
    dim: int = option(32, "size of the embedding", low=1)

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        channels, _ = series_shape(shape, self.name)
        base = nn.Sequential(LstmStates(channels, self.hidden), nn.Linear(self.hidden, self.dim), nn.ReLU())
        return Model(base, nn.Linear(self.dim, num_classes))
