"""Krum and Multi-Krum (Blanchard et al., NeurIPS 2017): the row, or the m − f rows, with the least mean of
squared distances to the m − f − 1 rows next to it. (The paper takes m − f − 2; byzfl, the oracle of the
tests, takes one more, which also serves small classes.)"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..rows import Rows, ranks
from ._base import Defence, defences


def krum_scores(rows: Rows, f: Tensor) -> Tensor:
    """Mean [G, M] of the squared distances to the m − f − 1 nearest others; infinite without a row."""
    near = rows.pairs().sort(2).values[:, :, 1:].square()
    place = torch.arange(near.shape[2], device=f.device)
    wanted = (rows.m - f - 1).clamp(min=0)
    kept = place < wanted[:, None]
    total = near.masked_fill(~kept[:, None, :], 0).sum(2) / wanted.clamp(min=1)[:, None]
    return total.masked_fill(~rows.there, torch.inf)


@defences.register("krum")
@dataclass(frozen=True)
class Krum(Defence):
    """The one row that lies closest to its neighbours."""

    beyond = 3

    def rule(self, rows: Rows, f: Tensor) -> Tensor:
        best = krum_scores(rows, f).argmin(1)
        return rows.x[torch.arange(len(best), device=best.device), best]


@defences.register("multikrum")
@dataclass(frozen=True)
class MultiKrum(Defence):
    """The mean of the m − f rows that lie closest to their neighbours."""

    beyond = 3

    def rule(self, rows: Rows, f: Tensor) -> Tensor:
        return rows.mean(kept=rows.there & (ranks(krum_scores(rows, f)) < (rows.m - f)[:, None]))
