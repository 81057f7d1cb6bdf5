"""The guard that puts a robust average in place of every client's values.

An average of equal values is that value, whatever their weights: so the method goes on with it and need
not know. What a leg declares as `averages` is all that the server uses of its uploads; the rest passes as
it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..core.algorithm import Leg
from ..core.answer import Replies, Reply
from ..core.averages import Averaged
from ..core.errors import ConfigError
from ..core.guard import Guard
from ..core.record import Record
from ..core.task import Task, Turn
from .defences._base import Defence, defences
from .gathering import capped_counts, field_rows, spread_values

log = logging.getLogger("protofed")
MOST_NAMED = 8  # classes in a warning


class Robust(Guard):
    """A defence in the round loop."""

    def __init__(self, defence: Defence, task: Task):
        self.defence = defence
        self.task = task
        self._holders = torch.zeros(task.C, dtype=torch.int64)
        self._counted = False  # whether uploads have rows of classes at all
        self._warned: set[int] = set()

    def combine(self, replies: Replies, state: Any, leg: Leg, turn: Turn) -> Replies:
        """Robust averages in place of the values; of rules that need no others, reply by reply."""
        if not leg.averages:
            return replies
        down = self.task.algorithm.broadcast(state, turn)
        self._count_from_here(leg)
        if self.defence.streams:
            return Replies.of_blocks(self._streamed(replies, leg, down))
        got = replies.all()
        self._count(got, leg)
        for averaged in leg.averages:
            got = self._levelled(got, averaged, down)
        self._warn(leg)
        return Replies(got)

    def record(self) -> dict[str, Any]:
        """How many uploads each class had."""
        return {"holders": self._holders.tolist()} if self._counted else {}

    def _levelled(self, got: list[Reply], averaged: Averaged, down: Record) -> list[Reply]:
        found = field_rows(got, averaged, down, self.task.C)
        if found is None:
            return got
        level = spread_values(got, averaged, found, self.defence.values(found.rows))
        return capped_counts(level, averaged, found, self.defence.capped(found.rows.w, found.rows.there))

    def _streamed(self, replies: Replies, leg: Leg, down: Record) -> Iterator[Sequence[Reply]]:
        for block in replies.blocks():
            self._count(block, leg)
            yield block if self.defence.name == "mean" else [self._single(one, leg, down) for one in block]
        self._warn(leg)

    def _single(self, reply: Reply, leg: Leg, down: Record) -> Reply:
        for averaged in leg.averages:
            found = field_rows([reply], averaged, down, self.task.C)
            if found is not None:
                reply = spread_values([reply], averaged, found, self.defence.one(found.rows)[:, 0])[0]
        return reply

    # holders of classes

    def _count_from_here(self, leg: Leg) -> None:
        if any(averaged.by for averaged in leg.averages):
            self._holders, self._counted = torch.zeros_like(self._holders), True

    def _count(self, got: Sequence[Reply], leg: Leg) -> None:
        by = next((averaged.by for averaged in leg.averages if averaged.by), "")
        for reply in got if by else ():
            self._holders += torch.bincount(getattr(reply.up, by), minlength=self.task.C).cpu()

    def _warn(self, leg: Leg) -> None:
        """Once for each class, of those with too few holders for the attackers reckoned with."""
        if not self._counted or self.defence.name == "mean":
            return
        few = (self._holders > 0) & (self._holders <= 2 * self.defence.expected(self._holders))
        fresh = [c for c in torch.nonzero(few)[:, 0].tolist() if c not in self._warned]
        self._warned.update(fresh)
        if fresh:
            named = ", ".join(str(c) for c in fresh[:MOST_NAMED]) + (" …" if len(fresh) > MOST_NAMED else "")
            log.warning(
                "robust %s: of class %s so few clients sent something (m ≤ 2f) that no rule can outvote an "
                "attacker there",
                self.defence.name,
                named,
            )


def make_robust(
    written: str, task: Task, participants: int, holders: Callable[[], int] | None = None
) -> Robust:
    """The guard that --robust asks for; ConfigError where it would be of no use."""
    defence, said = defences.make(written), f"--robust {written}"
    if defence.name != "mean":
        _check_averages(said, task)
        _check_enough(said, defence, task, participants, holders)
    return Robust(defence, task)


def _check_averages(said: str, task: Task) -> None:
    """That the server of the method averages, and nothing else."""
    method = task.algorithm
    remedy = "only an average can be made robust: use a method that averages, such as fedproto or fedavg"
    if method.single:
        raise ConfigError(f"{said}: {method.name} {method.single}; {remedy}")
    added = [averaged.field for leg in method.legs for averaged in leg.averages if averaged.added]
    if added:
        raise ConfigError(
            f"{said}: {method.name} adds up {added[0]} of clients of unlike size, once each: their median is "
            f"no sum; {remedy}"
        )


def _check_enough(
    said: str, defence: Defence, task: Task, participants: int, holders: Callable[[], int] | None
) -> None:
    """That as many uploads can come as the rule needs."""
    least = defence.least()
    whose = f"{least} uploads (2f + {defence.beyond})"
    if participants < least:
        raise ConfigError(
            f"{said}: needs {whose} to withstand {defence.f or 1}; a round has {participants} clients; "
            "ask more of them, or lower f"
        )
    by_class = all(averaged.by for leg in task.algorithm.legs for averaged in leg.averages)
    if by_class and holders is not None and (most := holders()) < least:
        raise ConfigError(
            f"{said}: needs {whose} of a class to withstand {defence.f or 1}; no class is held by more than "
            f"{most} clients; lower f, or give clients more classes"
        )
