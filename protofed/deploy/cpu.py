"""CPU seconds of all that a process has started, while it goes on (Linux)."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType

PROC = Path("/proc")
LOOK_SECONDS = 0.2


class CpuWatch:
    """Looks now and then how much CPU time the processes below this one have used, with those that they had
    started and that have ended. Where there is no /proc, all answers are NaN."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> CpuWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def between(self, begin: float, end: float) -> float:
        """CPU seconds between two moments of the clock."""
        inside = [used for moment, used in self._seen if begin - LOOK_SECONDS <= moment <= end + LOOK_SECONDS]
        return inside[-1] - inside[0] if len(inside) > 1 else float("nan")

    def _look(self) -> None:
        while PROC.exists() and not self._over.wait(LOOK_SECONDS):
            self._seen.append((time.time(), used_below(os.getpid())))


def used_below(top: int) -> float:
    """CPU seconds of all descendants of a process that live, and of those of theirs that were waited for."""
    parents, ticks = {}, {}
    for path in PROC.glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended just now
            continue
        parents[int(path.parent.name)] = int(fields[1])
        ticks[int(path.parent.name)] = sum(int(field) for field in fields[11:15])
    found, below = {top}, 0
    while len(found) > below:
        below = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return sum(ticks[pid] for pid in found - {top}) / os.sysconf("SC_CLK_TCK")
