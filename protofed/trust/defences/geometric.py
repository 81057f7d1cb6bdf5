"""The geometric median by the smoothed Weiszfeld algorithm (Pillutla et al., IEEE TSP 2022):

z ← Σ w_i x_i / max(ν, ‖x_i − z‖)  /  Σ w_i / max(ν, ‖x_i − z‖)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.options import option
from ..rows import Rows, weighted_mean
from ._base import Defence, defences


def geometric_median(rows: Rows, w: Tensor, steps: int, nu: float) -> Tensor:
    """The point [G, D] with the least weighted sum of distances to the rows of its group, after `steps`."""
    z, w = torch.zeros_like(rows.centre), w * rows.there
    for _ in range(steps):
        z = weighted_mean(rows.x, w / rows.distances(z).clamp(min=nu))
    return z


@defences.register("geometric")
@dataclass(frozen=True)
class Geometric(Defence):
    """The point with the least sum of distances to all rows."""

    steps: int = option(20, "steps of the Weiszfeld algorithm", low=1)
    nu: float = option(1e-4, "ν, distances below count as this", above=0)

    def rule(self, rows: Rows, f: Tensor) -> Tensor:
        return geometric_median(rows, rows.w.to(rows.x.dtype), self.steps, self.nu)
