"""What a robust rule is: options that all share, and one average for every class at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ...core.options import option
from ...core.registry import Registry
from ..rows import Rows, mixed, quantile


@dataclass(frozen=True)
class Defence(ABC):
    """Base of all rules. A subclass says what it makes of the rows of each group."""

    share: float = option(0.3, "share of the holders of a class that may be attackers", above=0, below=0.5)
    f: int | None = option(None, "their number instead, the same for all classes", low=1)
    cap: float = option(
        0.5, "counts of a class are capped at this quantile of them; 1: left as they are", above=0, high=1
    )
    nnm: bool = option(False, "first replace each row by the mean of those next to it (for unlike clients)")

    name: ClassVar[str] = ""
    beyond: ClassVar[int] = 1  # rows that it needs beyond twice the attackers

    @abstractmethod
    def rule(self, rows: Rows, f: Tensor) -> Tensor:
        """The average [G, D] of the rows of each group, up to f [G] of which may be an attacker's."""

    @property
    def streams(self) -> bool:
        """Whether `one` is all there is to it: uploads then need not be gathered."""
        return False

    def one(self, rows: Rows) -> Tensor:
        """What becomes of single rows [G, 1, D], where the rule streams."""
        return rows.x

    def values(self, rows: Rows) -> Tensor:
        """The average [G, D], after counts were capped and rows mixed."""
        rows = rows._replace(w=self.capped(rows.w, rows.there))
        f = self.faulty(rows.m)
        return self.rule(rows._replace(x=mixed(rows, f)) if self.nnm else rows, f)

    def capped(self, w: Tensor, there: Tensor) -> Tensor:
        """Weights [G, M], none above the quantile."""
        return w if self.cap >= 1 else torch.minimum(w, quantile(w, there, self.cap)[:, None])

    def expected(self, m: Tensor) -> Tensor:
        """Attackers [G] that are reckoned with among m [G] rows: at least one."""
        if self.f is not None:
            return torch.full_like(m, self.f)
        return (self.share * m + 1e-9).floor().long().clamp(min=1)

    def faulty(self, m: Tensor) -> Tensor:
        """The same, but always a minority: no rule withstands more."""
        return torch.minimum(self.expected(m), ((m - 1) // 2).clamp(min=0))

    def least(self) -> int:
        """Fewest rows of a class with which it can withstand what it reckons with."""
        return 2 * (self.f or 1) + self.beyond


defences: Registry[Defence] = Registry(
    "defence", Defence, "protofed.defences", home="protofed.trust.defences"
)
