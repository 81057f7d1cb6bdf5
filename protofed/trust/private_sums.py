"""Noise in sums that clients send once: moments of a fixed map φ with ‖φ‖ ≤ R, class sums and counts.

A sample adds φφᵀ to A, φ to B_y and 1 to n_y. With the weights 1/R, 1 and R each of them is no longer than R:

    released  (A/R, B, R·n) + N(0, (z Δ)²)
    example   Δ = R √parts: add or remove one sample (two parts without A)
    client    Δ = clip: what a client adds is shortened to it as a whole

(Unweighted, (A, B, n) has Δ = √(R⁴ + R² + 1), and as much noise in B as in A.) The upper triangle of φφᵀ is
no longer than φφᵀ itself, ‖φ‖², so noise in each of its entries is enough; the total is symmetric, and
eigenvalues below 0 become 0. Counts within three deviations of their noise become 0, with their sums.

Each client is added once (`Averaged.once`), so a unit has a share in one release, however many rounds there
are. What stays at the clients (FedCommons' networks and temperatures) is not released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..core.algorithm import Leg
from ..core.answer import Replies, Reply
from ..core.averages import Averaged
from ..core.errors import ConfigError
from ..core.guard import Guard
from ..core.task import Turn
from ..ops.moments import square_of, triangle
from .budget import Budget
from .noise import gaussian
from .noisy_rows import CERTAIN
from .summands import shorten


class PrivateSums(Guard):
    """Adds noise to the totals of those who send their sums in a round. `clip` 0: samples are the units."""

    def __init__(self, budget: Budget, bound: float, clip: float, leg: Leg):
        self.budget = budget
        self.bound = bound
        self.clip = clip
        self.square = next((one for one in leg.averages if one.square), None)
        self.rows = next(one for one in leg.averages if one.by)

    @property
    def sensitivity(self) -> float:
        """Δ of the weighted sums."""
        return self.clip or self.bound * math.sqrt(3 if self.square else 2)

    def combine(self, replies: Replies, state: Any, leg: Leg, turn: Turn) -> Replies:
        self.budget.round = turn.round
        before = set(getattr(state, self.rows.once).tolist())
        known, new, total = [], [], None
        like: Any = None
        for reply in replies:
            hollow = _hollow(reply.up, leg.averages)
            if reply.client in before or not len(getattr(reply.up, self.rows.by)):
                known.append(Reply(reply.client, 1, hollow))
                continue
            like = reply.up
            new.append(Reply(reply.client, 1, hollow))
            one = self.contribution(reply.up, turn.task.C)
            total = one if total is None else total + one
        if total is None:
            return Replies(known)
        new.sort(key=lambda reply: reply.client)
        self.budget.release(turn, *(str(reply.client) for reply in new))
        fields = self._fields(like, self.noisy(total, turn), turn.task.C)
        nothing = {name: torch.zeros_like(value) for name, value in fields.items()}
        return Replies([*known, *(_with(one, nothing if k else fields) for k, one in enumerate(new))])

    def record(self) -> dict[str, Any]:
        return self.budget.record()

    def spent(self, next_round: int) -> str:
        return self.budget.spent(next_round)

    def noisy(self, total: Tensor, turn: Turn) -> Tensor:
        """All that is told of a total."""
        noise = gaussian(len(total), turn, self.budget.books is not None).to(total.device)
        return total + self.budget.level.noise * self.sensitivity * noise

    def contribution(self, up: Any, classes: int) -> Tensor:
        """What one client adds."""
        return shorten(self.vector(up, classes), self.clip) if self.clip else self.vector(up, classes)

    def vector(self, up: Any, classes: int) -> Tensor:
        """(A/R, B, R·n) of one client."""
        sums, cls = getattr(up, self.rows.field).double(), getattr(up, self.rows.by)
        table = sums.new_zeros(classes, sums.shape[1]).index_add_(0, cls, sums)
        counts = sums.new_zeros(classes).index_add_(0, cls, getattr(up, self.rows.weight).double())
        square = getattr(up, self.square.field).double() if self.square else sums[:0, 0]
        return torch.cat([square.flatten() / self.bound, table.flatten(), self.bound * counts])

    def _fields(self, like: Any, vector: Tensor, classes: int) -> dict[str, Tensor]:
        """Inverse of `vector`, for all classes: what cannot be is put right."""
        sums = getattr(like, self.rows.field)
        width = sums.shape[1]
        square, table, counts = torch.split(
            vector, [len(vector) - classes * (width + 1), classes * width, classes]
        )
        deviation = self.budget.level.noise * self.sensitivity
        counts = torch.where(counts > CERTAIN * deviation, counts / self.bound, 0.0).round()
        table = torch.where(counts[:, None] > 0, table.reshape(classes, width), 0.0)
        self._note(table, counts, deviation)
        found = {self.rows.field: table.to(sums.dtype), self.rows.weight: counts.to(torch.int64)}
        found[self.rows.by] = torch.arange(classes, device=sums.device)
        if self.square:
            name, whole = self.square.field, nonnegative(square_of(square * self.bound))
            found[name] = triangle(whole)[None].to(sums.dtype)
        return found

    def _note(self, table: Tensor, counts: Tensor, deviation: float) -> None:
        shown = counts > 0
        error = deviation * math.sqrt(table.shape[1]) / counts[shown]
        length = torch.linalg.vector_norm(table[shown], dim=1) / counts[shown]
        pair = [float(v.median()) for v in (error, length)] if bool(shown.any()) else []
        self.budget.notes |= {"withheld": int((~shown).sum()), "error": {self.rows.field: pair}}


def nonnegative(square: Tensor) -> Tensor:
    """The nearest symmetric matrix without negative eigenvalues."""
    values, vectors = torch.linalg.eigh(square)
    near: Tensor = (vectors * values.clamp(min=0)) @ vectors.T
    return near


def check_sums_leg(leg: Leg, name: str) -> None:
    """ConfigError unless what goes up are class sums, with counts, perhaps one field of squares."""
    rows = [one for one in leg.averages if one.by]
    if len(rows) != 1 or not rows[0].weight or not rows[0].once:
        raise ConfigError(f"dp: {name} adds other sums than those of features by class; no bound is known")


def _hollow(up: Any, averages: Sequence[Averaged]) -> Any:
    """An upload without the rows that are added."""
    fields = {one.field for one in averages} | {name for one in averages for name in (one.by, one.weight)}
    changed = {name: getattr(up, name)[:0] for name in fields if name}
    return type(up)(**{spec.name: changed.get(spec.name, getattr(up, spec.name)) for spec in up.specs()})


def _with(reply: Reply, fields: dict[str, Tensor]) -> Reply:
    up = reply.up
    values = {spec.name: fields.get(spec.name, getattr(up, spec.name)) for spec in up.specs()}
    return reply._replace(up=type(up)(**values))
