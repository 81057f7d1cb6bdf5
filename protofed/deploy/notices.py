"""What the client app has to tell the person at the client, as lines of notices.log beside client.toml.

Flower starts a process for each message and keeps its output; `protofed client` prints the lines here.
"""

from __future__ import annotations

import time
from pathlib import Path

from ..core.outside import SAID

NAME, MOST_BYTES = "notices.log", 1_000_000


def tell(home: Path, text: str) -> None:
    """Add a line. Text may come from outside: what cannot be printed is written out."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:SAID])
    path = home / NAME
    mode = "w" if path.exists() and path.stat().st_size > MOST_BYTES else "a"
    with open(path, mode) as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {shown}\n")


class Notices:
    """The lines that are new since the last look."""

    def __init__(self, home: Path):
        self.path = home / NAME
        self._read = self.path.stat().st_size if self.path.exists() else 0

    def new(self) -> list[str]:
        """As they were told, without the time."""
        if not self.path.exists():
            return []
        if self.path.stat().st_size < self._read:
            self._read = 0
        with open(self.path, "rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        return [line.split(" ", 2)[-1] for line in data.decode(errors="replace").splitlines() if line]
