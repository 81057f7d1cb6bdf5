"""Tables and warnings on the terminal."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from ..core.escape import visible

if TYPE_CHECKING:
    from rich.console import Console


def make_console() -> Console:
    """For standard output. A file or a pipe has no width: nothing needs to be folded or cut."""
    from ..runs.bars import PlainConsole  # not for --help and --version, which are to be there at once

    console = PlainConsole()
    if not console.is_terminal:
        console.width = 10_000
    return console


def tell(text: str) -> None:
    """A line on standard error."""
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()


class WarningLines(logging.Handler):
    """Warnings of the library as lines on standard error, each once: a study meets the same in every run."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, unless it was written before."""
        text = " ".join(record.getMessage().split())
        if text not in self._said:
            self._said.add(text)
            tell(f"protofed: warning: {text}")
