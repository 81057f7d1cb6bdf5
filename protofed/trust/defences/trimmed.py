"""The trimmed mean (Yin et al., ICML 2018): in each coordinate the f smallest and the f largest values are
left out, the others averaged by their weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..rows import TINY, Rows
from ._base import Defence, defences


@defences.register("trimmed")
@dataclass(frozen=True)
class Trimmed(Defence):
    """In each coordinate the mean without the f smallest and f largest values."""

    def rule(self, rows: Rows, f: Tensor) -> Tensor:
        values, order = rows.x.masked_fill(~rows.there[:, :, None], torch.inf).sort(1)
        w = rows.w.to(rows.x.dtype)[:, :, None].expand_as(order).gather(1, order)
        place = torch.arange(values.shape[1], device=f.device)
        kept = (place >= f[:, None]) & (place < (rows.m - f)[:, None])
        w = w * kept[:, :, None]
        return (w * values.masked_fill(~kept[:, :, None], 0)).sum(1) / w.sum(1).clamp(min=TINY)
