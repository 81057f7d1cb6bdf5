"""Uploads of one field as padded rows: what robust rules work on, all classes at once.

Axes: G groups (the classes that somebody sent; of a tree of weights there is one), M rows of a group at
most, D numbers in a row.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

TINY = 1e-30


class Rows(NamedTuple):
    """The rows of each group, padded with zeros."""

    x: Tensor  # [G, M, D]
    w: Tensor  # [G, M] weights
    there: Tensor  # bool [G, M]
    centre: Tensor  # [G, D] what was broadcast last, else 0
    known: Tensor  # bool [G] whether there is a centre
    by_class: bool = True  # rows of classes; else whole trees

    @property
    def m(self) -> Tensor:
        """Rows [G] of each group."""
        return self.there.sum(1)

    def mean(self, x: Tensor | None = None, kept: Tensor | None = None) -> Tensor:
        """Weighted mean [G, D] of the rows (or of others in their place), or of those that are kept [G, M]; 0
        where none is."""
        return weighted_mean(self.x if x is None else x, self.w * (self.there if kept is None else kept))

    def sorted(self, values: Tensor) -> Tensor:
        """Values [G, M, …] in order along M, what is not there at the end."""
        absent = ~self.there.reshape(self.there.shape + (1,) * (values.ndim - 2))
        return values.masked_fill(absent, torch.inf).sort(1).values

    def median(self, values: Tensor) -> Tensor:
        """Plain median [G] of one number a row [G, M]; of an even number the lower one."""
        middle = ((self.m - 1) // 2).clamp(min=0)
        return self.sorted(values).gather(1, middle[:, None])[:, 0]

    def distances(self, points: Tensor) -> Tensor:
        """Distance [G, M] of each row to its group's point [G, D]; 0 where there is no row."""
        return _lengths(self.x - points[:, None]) * self.there

    def pairs(self) -> Tensor:
        """Distances [G, M, M] between the rows of a group; infinite where one is missing."""
        both = self.there[:, :, None] & self.there[:, None, :]
        found = torch.cdist(self.x, self.x, compute_mode="donot_use_mm_for_euclid_dist")
        return found.masked_fill(~both, torch.inf)


def weighted_mean(x: Tensor, w: Tensor) -> Tensor:
    """Mean [G, D] of rows [G, M, D] by weights [G, M]; 0 without weight."""
    return torch.einsum("gm,gmd->gd", w.to(x.dtype), x) / w.sum(1).clamp(min=TINY).to(x.dtype)[:, None]


def ranks(values: Tensor) -> Tensor:
    """Place of each value [..., M] in the order along the last axis, from 0."""
    return values.argsort(dim=-1, stable=True).argsort(-1)


def shortened(x: Tensor, radius: Tensor, centre: Tensor) -> Tensor:
    """Rows [G, M, D] brought within a radius [G] around a centre [G, D]."""
    apart = x - centre[:, None]
    factor = (radius[:, None] / _lengths(apart).clamp(min=TINY)).clamp(max=1)
    return centre[:, None] + apart * factor[:, :, None]


def quantile(values: Tensor, there: Tensor, q: float) -> Tensor:
    """The q-quantile [G] of values [G, M], the nearest one from above: the ⌈q·m⌉-th in order."""
    place = (torch.ceil(q * there.sum(1)).long() - 1).clamp(min=0)
    return values.masked_fill(~there, torch.inf).sort(1).values.gather(1, place[:, None])[:, 0]


def mixed(rows: Rows, f: Tensor) -> Tensor:
    """Nearest-neighbour mixing: each row becomes the weighted mean of the m − f rows next to it, itself
    included (Allouah et al., AISTATS 2023)."""
    near = ranks(rows.pairs()) < (rows.m - f)[:, None, None]
    share = near * (rows.w * rows.there)[:, None, :]
    return share.to(rows.x.dtype) @ rows.x / share.sum(2, keepdim=True).clamp(min=TINY).to(rows.x.dtype)


def _lengths(x: Tensor) -> Tensor:
    found: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return found
