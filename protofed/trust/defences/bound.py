"""A norm bound: longer rows are shortened to it, then averaged. The bound is `times` the median length of the
class's rows, or a fixed `radius`. Prototypes are measured from 0, weights from what was broadcast last: of
these the change is bounded (Sun et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.options import option
from ..rows import Rows, shortened
from ._base import Defence, defences


@defences.register("bound")
@dataclass(frozen=True)
class Bound(Defence):
    """The mean of rows that are no longer than a bound."""

    times: float = option(1.0, "the bound in medians of the class's lengths", above=0)
    radius: float | None = option(None, "a fixed bound instead", above=0)

    @property
    def streams(self) -> bool:
        return self.radius is not None and self.cap >= 1 and not self.nnm

    def _origin(self, rows: Rows) -> Tensor:
        return torch.zeros_like(rows.centre) if rows.by_class else rows.centre

    def one(self, rows: Rows) -> Tensor:
        return shortened(rows.x, torch.full_like(rows.x[:, 0, 0], self.radius or 0.0), self._origin(rows))

    def rule(self, rows: Rows, f: Tensor) -> Tensor:
        if self.radius is not None:
            return rows.mean(self.one(rows))
        origin = self._origin(rows)
        return rows.mean(shortened(rows.x, self.times * rows.median(rows.distances(origin)), origin))
