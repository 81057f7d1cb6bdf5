"""Tables and warnings on the terminal."""

from __future__ import annotations

import logging
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from ..core.escape import visible


class PlainConsole(Console):
    """Text is shown as it is: brackets are no markup, and nothing in it acts on the terminal."""

    def __init__(self, stderr: bool = False):
        super().__init__(stderr=stderr, markup=False, emoji=False)

    def render_str(self, text: str, **how: Any) -> Text:
        """All strings come through here, those in tables too."""
        return super().render_str(visible(text, lines=True), **{**how, "markup": False, "emoji": False})


def make_console() -> Console:
    """For standard output. A file or a pipe has no width: nothing needs to be folded or cut."""
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
