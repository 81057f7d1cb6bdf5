"""Tables on the terminal."""

from __future__ import annotations

from rich.console import Console


def make_console() -> Console:
    """For standard output. A file or a pipe has no width: nothing needs to be folded or cut."""
    console = Console()
    if not console.is_terminal:
        console.width = 10_000
    return console
