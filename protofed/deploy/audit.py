"""audit.jsonl beside server.toml: who joined, who was refused and why, what each round took, what operators
did.

One JSON object a line, with its number, time, run and event. Lines are only ever added, each with a checksum
that covers those before it, and the file is its owner's alone. Text from outside is cut to a bounded length,
and nothing but printable ASCII is written. `protofed verify DIR` (the folder of server.toml) checks it.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core.checksums import CHECK, LastLine, chain, follow, is_chained
from ..core.errors import RunError
from ..core.outside import SAID
from ..core.version import VERSION
from ..runs.files import finite

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME, LONGEST = "audit.jsonl", 1_000_000  # bytes of a line


class Audit:
    """The log of a server, as one run writes it."""

    def __init__(self, home: Path, run: str):
        self.path = home / NAME
        self.run = run

    def note(self, event: str, **fields: Any) -> None:
        """Add a line."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                _take(handle)  # server and app both write
                head, gap = _end_of(handle)
                line = {"line": head.lines + 1, "time": time, "run": self.run, "event": event}
                text = json.dumps(finite({**line, **_short(fields)})).replace("\x7f", "\\u007f")
                os.write(handle, f"{gap}{chain(text, head)[0]}\n".encode())
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


def check_audit(path: Path) -> str:
    """What is wrong with an audit log, in a sentence; "" if every line is as it was written. Lines that are
    missing at its end are not noticed."""
    lines = path.read_text(errors="replace").splitlines()
    plain = next((number for number, line in enumerate(lines) if is_chained(line)), len(lines))
    good = plain + sum(1 for _ in follow(lines[plain:]))
    if good < len(lines):
        return f"line {good + 1} is not what was written after the line before it; restore it from a backup"
    return f"lines 1 to {plain} have no checksum: an earlier version wrote them" if plain else ""


def _take(handle: int) -> None:
    """One writer at a time, until the file is closed."""
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)


def _end_of(handle: int) -> tuple[LastLine, str]:
    """Where the chain of lines has come to, and what ends a line that a crash cut off. After such a one, and
    after lines of earlier versions, it begins anew."""
    size = os.fstat(handle).st_size
    data = os.pread(handle, LONGEST, max(0, size - LONGEST))
    gap = "" if not data or data.endswith(b"\n") else "\n"
    last = data.decode(errors="replace").rstrip("\n").rpartition("\n")[2]
    if gap or not is_chained(last):
        return LastLine(), gap
    with suppress(ValueError, KeyError, TypeError):
        found = json.loads(last)
        return LastLine(int(found["line"]), str(found[CHECK])), gap
    return LastLine(), gap


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key)[:SAID]: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value]
    return value[:SAID] if isinstance(value, str) else value
