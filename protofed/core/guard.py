"""What may stand between the clients and a method: attackers on the one side, guards on the other.

    clients → Adversary.answers → checks of uploads → Guard.combine (each in turn) → aggregate

The round loop calls them and knows nothing else of them; methods know nothing of them at all. Attacks, robust
averages, noise and the rest are in protofed/trust.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .algorithm import Leg
from .answer import Answer, ClientState, Replies, Score
from .task import Turn


class Guard:
    """Between the accepted uploads and `aggregate`. By default nothing happens."""

    def combine(self, replies: Replies, state: Any, leg: Leg, turn: Turn) -> Replies:
        """What the method gets to read. `state` is the server's, before this leg."""
        return replies

    def record(self) -> dict[str, Any]:
        """What the round's line in metrics.jsonl has of it, asked after the last leg."""
        return {}

    def spent(self, next_round: int) -> str:
        """Why the run must end before this round; "": it may go on."""
        return ""


class Adversary:
    """Clients that do not keep to the method: simulation alone."""

    clients: frozenset[int] = frozenset()  # who attacks

    def answers(self, answers: Iterable[Answer], leg: Leg, turn: Turn) -> Iterator[Answer]:
        """What the clients of a leg answer when the attackers have had their way; before any check."""
        yield from answers

    def record(self) -> dict[str, Any]:
        """What the round's line in metrics.jsonl has of it."""
        return {}

    def judge(
        self, scores: Sequence[Score], round: int, client_state: Callable[[int], ClientState | None]
    ) -> dict[str, Any]:
        """What a test of the honest clients says of it, for the same line."""
        return {}
