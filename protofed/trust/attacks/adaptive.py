"""Attackers that know the defence, and all honest uploads: the deviation that moves its result the
farthest.

All attackers send m + γ · s · u for a class: m is the mean of the honest rows, s their median distance to
it, u a direction. For every γ of a grid that doubles from 1/8 to 8,192 the defence itself is asked what it
would make of these rows; the γ whose result lies farthest from m along u is sent. What a rule rejects
moves nothing, so this is the largest deviation that passes. Directions (Shejwalkar and Houmansadr, NDSS
2021): against the mean, or against the deviations of the honest rows in each coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.answer import Reply
from ...core.averages import Averaged
from ...core.options import option
from ..defences._base import Defence
from ..defences.mean import Mean
from ..gathering import Gathered, field_rows, put_values
from ..rows import TINY, Rows
from ._base import Attack, Sight, attacks

STEPS = [2.0**power for power in range(-3, 14)]


@attacks.register("adaptive")
@dataclass(frozen=True)
class Adaptive(Attack):
    """Knows the defence: the deviation that moves its result the farthest."""

    direction: str = option(
        "mean",
        "against the mean of the honest uploads, or against their deviations",
        choices=("mean", "deviation"),
    )

    colluding = True

    def upload(self, reply: Reply, sight: Sight) -> Reply:
        for averaged in sight.fields if sight.honest else ():
            found = sight.once(averaged, lambda a=averaged: self._found(a, sight))  # type: ignore[misc]
            if found is not None:
                reply = put_values(reply, averaged, *found)
        return reply

    def _found(self, averaged: Averaged, sight: Sight) -> tuple[Gathered, Tensor] | None:
        found = field_rows([*sight.honest, *sight.attacking], averaged, sight.down, sight.task.C)
        if found is None:
            return None
        bad = attackers_rows(found, averaged, sight)
        return found, worst_values(found.rows, bad, sight.defence or Mean(), self.direction)


def attackers_rows(found: Gathered, averaged: Averaged, sight: Sight) -> Tensor:
    """Bool [G, M]: which rows come from attackers, who stand behind the honest ones."""
    sizes = [len(getattr(r.up, averaged.by)) if averaged.by else 1 for r in (*sight.honest, *sight.attacking)]
    honest = sum(sizes[: len(sight.honest)])
    bad = torch.zeros_like(found.rows.there)
    bad[found.group[honest:], found.place[honest:]] = True
    return bad


def worst_values(rows: Rows, bad: Tensor, defence: Defence, direction: str) -> Tensor:
    """What attackers send [G, D]: see above. Groups that no honest client has a row of keep their mean."""
    honest = rows._replace(there=rows.there & ~bad, w=rows.there.double())
    mean = honest.mean()
    spread = honest.median(honest.distances(mean))
    spread = torch.where(torch.isfinite(spread) & (spread > 0), spread, mean.norm(dim=1)) + TINY
    if direction == "mean":
        towards = -mean
    else:
        towards = -honest.mean((rows.x - mean[:, None]).square()).sqrt()
    unit = towards / towards.norm(dim=1, keepdim=True).clamp(min=TINY)
    best, farthest = mean, torch.full_like(spread, -torch.inf)
    for step in STEPS:
        sent = mean + step * spread[:, None] * unit
        made = defence.values(rows._replace(x=torch.where(bad[:, :, None], sent[:, None], rows.x)))
        moved = ((made - mean) * unit).sum(1)
        best = torch.where((moved > farthest)[:, None], sent, best)
        farthest = torch.maximum(farthest, moved)
    return best
