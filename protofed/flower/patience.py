"""How long to pause between two looks for something that another process will bring."""

from __future__ import annotations

import time

SHARE = 0.1  # of the time waited so far: so much of it may be lost by looking too late
OF_A_LOOK = 4.0  # a pause lasts so many times as long as a look: others have most of a busy server


class Patience:
    """Pauses that grow with the time waited, between two bounds in seconds. What comes soon is noticed at
    once; whoever waits for minutes asks seldom; and where a look takes long, as at a busy server, looks get
    fewer."""

    def __init__(self, shortest: float, longest: float):
        self.shortest = shortest
        self.longest = longest
        self.begin()

    def begin(self) -> None:
        """The wait begins now."""
        self._began = self._woke = time.monotonic()

    def pause(self) -> float:
        """Seconds until the next look."""
        now = time.monotonic()
        wanted = max(SHARE * (now - self._began), OF_A_LOOK * (now - self._woke))
        return min(self.longest, max(self.shortest, wanted))

    def woke(self) -> None:
        """The pause is over: the next look begins."""
        self._woke = time.monotonic()

    def sleep(self, most: float | None = None) -> None:
        """Pause, at most so long."""
        pause = self.pause()
        time.sleep(pause if most is None else max(0.0, min(pause, most)))
        self.woke()
