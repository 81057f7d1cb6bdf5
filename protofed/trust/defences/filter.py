"""Outliers are left out, all else is averaged as ever: a rule for classes with few holders.

z_c is the geometric median of a class's rows, s_c the median of their distances to it; a row farther than
`times` · s_c is left out. So nothing changes while clients agree, and a row that stays has moved the
average by no more than its share of that distance. Of two holders nobody can tell which one lies: there
z_c is what was broadcast last and s_c that of all classes together; a class of which no row is left keeps
what was broadcast. In the first round, with nothing broadcast yet, such rows are shortened to the median
length of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.options import option
from ..rows import Rows, shortened
from ._base import Defence, defences
from .geometric import geometric_median

STEPS, NU = 20, 1e-4
FEW = 3  # rows from which on there can be a majority


@defences.register("filter")
@dataclass(frozen=True)
class Filter(Defence):
    """The mean without outliers, also where few clients hold a class."""

    times: float = option(3.0, "farthest row that counts, in median distances to the class's median", above=0)

    def rule(self, rows: Rows, f: Tensor) -> Tensor:
        middle = geometric_median(rows, torch.ones_like(rows.x[:, :, 0]), STEPS, NU)
        enough, asked = rows.m >= FEW, (rows.m < FEW) & rows.known
        middle = torch.where(asked[:, None], rows.centre, middle)
        apart = rows.distances(middle)
        typical = _typical(rows, apart, enough)
        reach = torch.where(enough, rows.median(apart), typical)
        reach = torch.where(enough | asked, self.times * reach, torch.inf)
        kept = rows.there & (apart <= reach[:, None])
        x = torch.where((enough | rows.known)[:, None, None], rows.x, _brought_in(rows))
        return torch.where(kept.any(1)[:, None], rows.mean(x, kept), rows.centre)


def _typical(rows: Rows, apart: Tensor, enough: Tensor) -> Tensor:
    """Median distance of all rows of the classes with enough holders; without such, of all rows."""
    used = rows.there & (enough[:, None] | ~enough.any())
    return apart[used].median()


def _brought_in(rows: Rows) -> Tensor:
    """All rows, none longer than the median length of all."""
    zero = torch.zeros_like(rows.centre)
    lengths = rows.distances(zero)[rows.there]
    return shortened(rows.x, lengths.median().expand(len(zero)), zero)
