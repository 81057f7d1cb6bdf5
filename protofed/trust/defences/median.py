"""The coordinate median (Yin et al., ICML 2018), weighted: half of the weight lies on either side.

Embeddings after a ReLU are 0 in many coordinates at many clients: a median of few holders then is 0 where
the mean is not, and accuracy is lost without any attacker.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..rows import Rows
from ._base import Defence, defences


def coordinate_median(rows: Rows) -> Tensor:
    """Weighted median [G, D]: the mean of the lower and the upper one."""
    values, order = rows.x.masked_fill(~rows.there[:, :, None], float("inf")).sort(1)
    w = (rows.w * rows.there).to(rows.x.dtype)
    weight = w[:, :, None].expand_as(order).gather(1, order).cumsum(1)
    half = w.sum(1)[:, None, None] / 2
    slack = 1e-6 * half
    low = (weight < half - slack).sum(1, keepdim=True)
    top = (weight <= half + slack).sum(1, keepdim=True).clamp(max=values.shape[1] - 1)
    top = top.minimum((rows.m - 1)[:, None, None].expand_as(top))
    return ((values.gather(1, low) + values.gather(1, top)) / 2)[:, 0]


@defences.register("median")
@dataclass(frozen=True)
class Median(Defence):
    """Coordinate by coordinate the median."""

    def rule(self, rows: Rows, f: Tensor) -> Tensor:
        return coordinate_median(rows)
