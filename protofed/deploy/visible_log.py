"""What a program prints, into a file, without anything that acts on a terminal.

Flower's programs log what clients and the server send to each other as it is: names, errors, requests. So
their output does not go to the file by itself, but through `visible`.
"""

from __future__ import annotations

import io
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

from ..core.escape import visible

LONGEST = 65_536  # characters that are waited for until a line ends
TAIL = 65_536  # bytes at the end of a file
_LEVEL = re.compile(r"\A\x1b\[\d+m((?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b[^\x1b]{0,40})\x1b\[0m")


class VisibleLog(threading.Thread):
    """Copies until the program, and all that it started, have ended."""

    def __init__(self, source: IO[bytes], path: Path):
        super().__init__(daemon=True, name=path.name)
        self._source = io.TextIOWrapper(source, "utf-8", errors="backslashreplace", newline="\n")
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 closed by `run`
        self.start()

    def run(self) -> None:
        """A full disk loses lines, but never stops the program, which would wait for a reader."""
        with self._file, self._source:
            for line in iter(lambda: self._source.readline(LONGEST), ""):
                with suppress(OSError):
                    self._file.write(harmless(line).encode())


def harmless(line: str) -> str:
    """A line as it may be shown; Flower's own colour of the level, at its beginning, is left out.

    >>> harmless("\\x1b[92mINFO \\x1b[0m: node \\x1b[2J\\n")
    'INFO : node \\\\x1b[2J\\n'
    """
    return visible(_LEVEL.sub(r"\1", line), lines=True)


def last_lines(path: Path, lines: int) -> str:
    """The end of a log, in one line; also of one that an earlier version wrote."""
    with suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        text = file.read(TAIL).decode(errors="backslashreplace").strip().split("\n")
        return " | ".join(harmless(line.strip()) for line in text[-lines:])
    return ""
