"""How often noisy sums were released in a deployed run: written down before each release.

Noise of a deployment is never stored, so a round that is played again after a restart is a second release of
the same samples. The count is kept apart from the run's records, which are taken back to the last checkpoint.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ..core.errors import ProtofedError, RunError
from ..core.outside import Fields
from ..runs.seals import read_whole, there, write_whole

MOST_RELEASES = 10**9


class Books:
    """Releases by name: of rounds, or of the clients whose sums were in them."""

    def __init__(self, path: Path):
        self.path = path
        self._counts = _read(path) if there(path.parent, path.name) else Counter()

    def add(self, *names: str) -> int:
        """One release more for each of these; returns the highest count of all. On disk when this returns."""
        self._counts.update(names)
        write_whole(self.path.parent, self.path.name, dict(self._counts))
        return self.most

    @property
    def most(self) -> int:
        """The highest count so far."""
        return max(self._counts.values(), default=0)


def _read(path: Path) -> Counter[str]:
    try:
        found = Fields(read_whole(path.parent, path.name, older=True), str(path))
        return Counter({name: found.whole(name, 1, MOST_RELEASES) for name in found.values})
    except ProtofedError as error:
        raise RunError(
            f"{path} is damaged: it says how often noisy sums were released, and without it nothing can be "
            "promised; begin a new run"
        ) from error
