"""What privacy a run has spent, and whether it may go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..core.task import Turn
from .levels import Level
from .noise import Spending


@dataclass
class Budget:
    """What a guard has spent: releases a round, or once in a run, in which a unit has a share; what may be
    spent; and the books of a deployment."""

    level: Level
    each_round: int
    once: int = 0
    most: float | None = None
    books: Spending | None = None
    round: int = 0
    notes: dict[str, Any] = field(default_factory=dict)

    def release(self, turn: Turn, *names: str) -> None:
        """One leg is about to be released."""
        self.round = turn.round
        if self.books is not None:
            self.books.add(*names or ("round",))

    def _releases(self, rounds: int) -> int:
        planned = self.once + rounds * self.each_round
        return planned if self.books is None else max(planned, self.books.most)

    def record(self) -> dict[str, Any]:
        """Of the round's line."""
        if not self.round:
            return {}
        spent = self.level.epsilon(self._releases(self.round))
        said = {"level": self.level.title, "delta": self.level.delta, "noise": self.level.noise}
        return {"epsilon": spent, "privacy": {**said, **self.notes}}

    def spent(self, next_round: int) -> str:
        """Why there must not be this round."""
        if self.most is None:
            return ""
        would = self.level.epsilon(self._releases(next_round - 1) + self.each_round)
        if would <= self.most:
            return ""
        return (
            f"{self.level.title} ε would be {would:.4g} after round {next_round}, above max_epsilon "
            f"{self.most:g}"
        )
