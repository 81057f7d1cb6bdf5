"""Centred clipping (Karimireddy et al., ICML 2021): around what was broadcast last, c, rows count up to τ:

    c + Σ w_i (x_i − c) · min(1, τ / ‖x_i − c‖) / Σ w_i

Without `tau`, τ is the median distance of a class's rows to c; a class that was not broadcast yet has the
coordinate median as c (with `tau`: 0).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.options import option
from ..rows import Rows, shortened
from ._base import Defence, defences
from .median import coordinate_median


@defences.register("clipping")
@dataclass(frozen=True)
class Clipping(Defence):
    """The mean of rows that count only up to a distance from what was broadcast last."""

    tau: float | None = option(None, "τ; none: the median distance of the class", above=0)

    @property
    def streams(self) -> bool:
        return self.tau is not None and self.cap >= 1 and not self.nnm

    def one(self, rows: Rows) -> Tensor:
        return shortened(rows.x, torch.full_like(rows.x[:, 0, 0], self.tau or 0.0), rows.centre)

    def rule(self, rows: Rows, f: Tensor) -> Tensor:
        if self.tau is not None:
            return rows.mean(self.one(rows))
        centre = torch.where(rows.known[:, None], rows.centre, coordinate_median(rows))
        return rows.mean(shortened(rows.x, rows.median(rows.distances(centre)), centre))
