"""The plain average by weights: no defence, and the row that others are held against. With `cap` below 1
counts are capped; with `nnm` rows are mixed first."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ...core.options import option
from ..rows import Rows
from ._base import Defence, defences


@defences.register("mean")
@dataclass(frozen=True)
class Mean(Defence):
    """The plain average: no defence."""

    cap: float = option(
        1.0, "counts of a class are capped at this quantile of them; 1: left as they are", above=0, high=1
    )

    @property
    def streams(self) -> bool:
        return self.cap >= 1 and not self.nnm

    def rule(self, rows: Rows, f: Tensor) -> Tensor:
        return rows.mean()
