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
from collections.abc import Iterable, Iterator, Sequence
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
from .noisy_rows import class_rows, without_rows
from .summands import contribution, flat, parts_of, reference, unflat


class PrivateAverage(Guard):
    """Shortened uploads, summed, with noise."""

    def __init__(self, level: ClientLevel, budget: Budget, participants: int):
        self.level = level
        self.budget = budget
        self.participants = participants

    def combine(self, replies: Replies, state: Any, leg: Leg, turn: Turn) -> Replies:
        if leg.up is Nothing:
            return Replies(Reply(reply.client, 1, reply.up) for reply in replies)
        clients: list[int] = []
        sums, like = self.noisy_sums(_noting(replies, clients), state, leg, turn)
        up = self._released(like, leg, sums, state, turn.task.C)
        rest = without_rows(up, leg)
        clients.sort()
        return Replies(Reply(client, 1, rest if k else up) for k, client in enumerate(clients))

    def noisy_sums(
        self, replies: Iterable[Reply], state: Any, leg: Leg, turn: Turn
    ) -> tuple[list[Tensor], Any]:
        """All that is told of the uploads, one vector a part, and the shapes of an upload: what follows is
        made of these alone."""
        sums: list[Tensor] = []
        like = None
        for reply in replies:
            like = reply.up if like is None else like
            one = contribution(reply.up, leg, state, turn.task.C, self.level.weight, self.level.clip)
            sums = [total + part for total, part in zip(sums, one)] if sums else one
        self.budget.release(turn)
        return self._with_noise(sums, turn), like

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
                table = total.reshape(classes, -1)
                rows, error = class_rows(like, part, table, leg, self.deviation, self.level.weight)
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


def _noting(replies: Iterable[Reply], clients: list[int]) -> Iterator[Reply]:
    """The replies, whose clients are noted as they pass."""
    for reply in replies:
        clients.append(reply.client)
        yield reply


def _blank(value: Any) -> Any:
    """Nothing of a client: zeros, trees without entries."""
    return torch.zeros_like(value) if isinstance(value, Tensor) else {}
