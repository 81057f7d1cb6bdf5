"""Whether the user asked to stop.

Python drops an exception that a signal raises inside a destructor or a callback of the garbage collector:
rare, but then Ctrl-C would do nothing. So the wish is noted too, and looked at after every round.
"""

from __future__ import annotations

import threading
from types import FrameType

asked = threading.Event()


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handler of SIGINT and SIGTERM."""
    asked.set()
    raise KeyboardInterrupt


def check() -> None:
    """Stop here if that was asked for while something else caught the interruption."""
    if asked.is_set():
        raise KeyboardInterrupt
