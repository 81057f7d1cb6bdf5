"""Ends worker processes that hang: stopped, in an endless loop, or waiting for what never comes.

How long a share of work may take follows from those that were answered before: ten times what the slowest
would take for as much work, and a minute at least. Before the first answer there is nothing to go by, and an
hour is allowed. A share that was cut off gets twice the time when it is done again. A process that is ended
looks to the engine like one that died: another takes its place, and its share is done anew, with equal
numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess

TICK = 1.0  # seconds from one look to the next
FLOOR = 60.0
FACTOR = 10.0
FIRST = 3600.0


@dataclass
class Patience:
    """How long an answer may take. `fixed`: the user's own number of seconds."""

    fixed: float | None = None
    slowest: dict[str, float] = field(default_factory=dict)  # kind of work → seconds for a unit of it

    def learn(self, kind: str, weight: float, seconds: float) -> None:
        """A share was answered after so many seconds."""
        self.slowest[kind] = max(self.slowest.get(kind, 0.0), seconds / max(weight, 1.0))

    def limit(self, kind: str, weight: float, tries: int = 0) -> float:
        """Seconds that a share may take.

        >>> patience = Patience()
        >>> patience.limit("train", 100.0)
        3600.0
        >>> patience.learn("train", 100.0, 20.0)
        >>> patience.limit("train", 100.0), patience.limit("train", 1.0), patience.limit("train", 100.0, 1)
        (200.0, 60.0, 400.0)
        """
        if self.fixed is not None:
            return self.fixed
        known = self.slowest.get(kind)
        seconds = FIRST if known is None else max(FLOOR, FACTOR * known * max(weight, 1.0))
        return float(seconds * 2**tries)


@dataclass
class Watched:
    """A process that owes an answer."""

    process: BaseProcess
    limit: float
    silent: float = 0.0  # seconds of silence while the engine waited for it
    ended: bool = False


class Watchdog:
    """A thread that looks at the processes for which the engine waits. Time in which the engine does
    something else does not count, nor does time in which the whole program was stopped."""

    def __init__(self) -> None:
        self._awaited: Sequence[Watched] = ()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="protofed-watchdog", daemon=True)
        self._thread.start()

    @contextmanager
    def waiting(self, watched: Sequence[Watched]) -> Iterator[None]:
        """The engine waits for one of these, to read or to write."""
        self._awaited = watched
        try:
            yield
        finally:
            self._awaited = ()

    def close(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(TICK):
            for one in self._awaited:
                one.silent += TICK
                if one.silent > one.limit and not one.ended:
                    one.ended = True
                    one.process.kill()
