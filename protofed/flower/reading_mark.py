"""A mark on disk while a client's reply is read: what takes the server down is not read a second time.

Exceptions refuse the reply and go on; a process that is killed while it reads (out of memory, a fault in a
library) leaves the mark. After the restart the same client would be asked the same again and answer from its
disk. So it is left out of that leg, once; in the next it takes part with a new reply.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core.errors import RunError
from ..runs.loose import read_loose, write_loose
from .packet import Meta

log = logging.getLogger("protofed")


class ReadingMark:
    """The mark of one run."""

    def __init__(self, path: Path):
        self.path = path
        self._found = self._look()
        if self._found:
            log.warning("the server ended while it read a reply of client %s: it is dropped", self._found[0])

    @contextmanager
    def reading(self, client: int, asked: Meta) -> Iterator[None]:
        """Set while the reply to `asked` is read, and gone when that ended, well or with an exception."""
        write_loose(self.path, {"client": client, "moment": _moment(asked)}, flush=False)
        try:
            yield
        finally:
            self.path.unlink(missing_ok=True)

    def suspect(self, client: int, asked: Meta) -> str | None:
        """Why the client is not asked this, if its reply took the server down."""
        if self._found != [client, _moment(asked)]:
            return None
        return f"client {client}: the server ended while it read this reply: it is not asked for again"

    def _look(self) -> list[object]:
        """The mark that an earlier start left; one that cannot be read accuses nobody, which is said."""
        if not self.path.exists():
            return []
        try:
            found = read_loose(self.path)
        except RunError as error:
            log.warning("%s", error)
            return []
        return [found.get("client"), found.get("moment")]


class NoMark:
    """Where nothing is kept: a simulation, measurements."""

    @contextmanager
    def reading(self, client: int, asked: Meta) -> Iterator[None]:
        """Nothing is noted."""
        yield

    def suspect(self, client: int, asked: Meta) -> str | None:
        """Nobody is suspected."""
        return None


def _moment(asked: Meta) -> str:
    return f"{asked.get('kind')} {asked.get('tag', asked.get('round', ''))}"
