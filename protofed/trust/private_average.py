"""Client-level differential privacy: noisy averages in place of the clients' values.

    server  V = Σ_k V_k · min(1, B / ‖V_k‖) + N(0, (z B)²),  V_k as in summands.py

Rows of classes: mean_c = noisy sum / noisy count; a class whose noisy count lies within three deviations of
its noise is withheld. Wholes: the state plus the noisy sum of changes over the number of clients asked, which
is fixed. Whatever the encoder does, one client moves V by at most B.

The method reads replies with these values and with nothing else of the clients: all weigh alike, the first
carries the rows, counts are the noisy ones. What the method makes of them is free of further cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..core.algorithm import Leg
from ..core.answer import Replies, Reply
from ..core.guard import Guard
from ..core.record import Nothing
from ..core.task import Turn
from .budget import Budget
from .levels import ClientLevel
from .noise import gaussian
from .summands import Part, contribution, flat, parts_of, reference, unflat

CERTAIN = 3.0  # deviations by which a noisy count must exceed 0


class PrivateAverage(Guard):
    """Shortened uploads, summed, with noise."""

    def __init__(self, level: ClientLevel, budget: Budget, participants: int):
        self.level = level
        self.budget = budget
        self.participants = participants

    def combine(self, replies: Replies, state: Any, leg: Leg, turn: Turn) -> Replies:
        if leg.up is Nothing:
            return Replies(Reply(reply.client, 1, reply.up) for reply in replies)
        classes, clients, like = turn.task.C, [], None
        sums: list[Tensor] = []
        for reply in replies:
            like = reply.up if like is None else like
            clients.append(reply.client)
            one = contribution(reply.up, leg, state, classes, self.level.weight, self.level.clip)
            sums = [total + part for total, part in zip(sums, one)] if sums else one
        self.budget.release(turn)
        sums = self._with_noise(sums, turn)
        up = self._released(like, leg, sums, state, classes)
        rest = _without_rows(up, leg)
        clients.sort()
        return Replies(Reply(client, 1, rest if k else up) for k, client in enumerate(clients))

    def record(self) -> dict[str, Any]:
        return self.budget.record()

    def spent(self, next_round: int) -> str:
        return self.budget.spent(next_round)

    @property
    def deviation(self) -> float:
        """Of the noise in each coordinate: z · B."""
        return self.level.noise * self.level.clip

    def _with_noise(self, sums: Sequence[Tensor], turn: Turn) -> list[Tensor]:
        sizes = [len(part) for part in sums]
        drawn = torch.split(gaussian(sum(sizes), turn, self.budget.books is not None), sizes)
        return [part + self.deviation * noise.to(part.device) for part, noise in zip(sums, drawn)]

    def _released(self, like: Any, leg: Leg, sums: Sequence[Tensor], state: Any, classes: int) -> Any:
        made: dict[str, Any] = {spec.name: _blank(getattr(like, spec.name)) for spec in leg.up.specs()}
        errors: dict[str, list[float]] = {}
        for part, total in zip(parts_of(leg), sums):
            if part.by:
                rows, error = self._rows(like, part, total.reshape(classes, -1), leg)
                made |= rows
                self.budget.notes["withheld"] = classes - len(rows[part.by])
            else:
                name = part.fields[0].field
                start, change = reference(state, name, getattr(like, name)), total / self.participants
                made[name] = unflat(flat(start) + change, start)
                error = [self.deviation * math.sqrt(len(total)) / self.participants, float(change.norm())]
            errors[part.fields[0].field] = error
        self.budget.notes["error"] = {**self.budget.notes.get("error", {}), **errors}
        return leg.up(**made)

    def _rows(self, like: Any, part: Part, table: Tensor, leg: Leg) -> tuple[dict[str, Any], list[float]]:
        """Fields of the classes that are not withheld, and the noise in a mean beside its length: medians."""
        sums, weighed = table[:, :-1], table[:, -1]
        cls = torch.nonzero(weighed > CERTAIN * self.deviation)[:, 0]
        count = weighed[cls] / self.level.weight
        means = sums[cls] / count[:, None]
        letters = {spec.name: spec.dims[0] for spec in leg.up.specs() if spec.dims}
        whole = count.round().clamp(min=1).to(torch.int64)
        found: dict[str, Any] = {
            name: whole
            for name, letter in letters.items()
            if letter == letters[part.by] and not getattr(like, name).is_floating_point()
        }
        widths = [math.prod(getattr(like, one.field).shape[1:]) for one in part.fields]
        for one, rows in zip(part.fields, torch.split(means, widths, 1)):
            held = getattr(like, one.field)
            found[one.field] = rows.reshape(len(cls), *held.shape[1:]).to(held.dtype)
        found[part.by] = cls
        error = self.deviation * math.sqrt(sums.shape[1]) / count
        lengths = torch.linalg.vector_norm(means, dim=1)
        return found, [float(v.median()) for v in (error, lengths)] if len(cls) else []


def _blank(value: Any) -> Any:
    """Nothing of a client: zeros, trees without entries."""
    return torch.zeros_like(value) if isinstance(value, Tensor) else {}


def _without_rows(up: Any, leg: Leg) -> Any:
    """The same with no rows of classes: what has to be counted once stands in one reply alone."""
    specs = {spec.name: spec.dims for spec in leg.up.specs()}
    letters = {(specs[one.by] or ("",))[0] for one in leg.averages if one.by}
    kept = {
        name: getattr(up, name)[:0] if dims and dims[0] in letters else getattr(up, name)
        for name, dims in specs.items()
    }
    return leg.up(**kept)
