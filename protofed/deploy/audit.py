"""audit.jsonl beside server.toml: who joined, who was refused and why, what each round took, what operators
did.

One JSON object a line, with time, run and event. Lines are only ever added, and the file is its owner's
alone. Text from outside is cut to a bounded length, and nothing but printable ASCII is written.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core.errors import RunError
from ..core.outside import SAID
from ..core.version import VERSION
from ..runs.files import finite

NAME = "audit.jsonl"


class Audit:
    """The log of a server, as one run writes it."""

    def __init__(self, home: Path, run: str):
        self.path = home / NAME
        self.run = run

    def note(self, event: str, **fields: Any) -> None:
        """Add a line."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "run": self.run, "event": event}
        text = json.dumps(finite({**line, **_short(fields)})).replace("\x7f", "\\u007f")
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(handle, f"{text}\n".encode())  # one call: lines of two processes do not mix
            finally:
                os.close(handle)
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror or error}") from error

    @contextmanager
    def server(self) -> Iterator[None]:
        """While `protofed server` runs: by whom it was started, and how it ended."""
        self.note("server starts", by=getpass.getuser(), pid=os.getpid(), version=VERSION)
        try:
            yield
        except BaseException as error:
            self.note("server ends", reason=f"{type(error).__name__}: {error}")
            raise
        self.note("server ends", reason="finished")


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key)[:SAID]: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value]
    return value[:SAID] if isinstance(value, str) else value
