"""Processes that end with the one that started them."""

from __future__ import annotations

import ctypes
import os
import sys


def end_with_parent(number: int, parent: int | None = None) -> None:
    """Have the kernel send this process a signal when its parent ends (Linux; elsewhere nothing). With
    `parent`, the number of the process that started this one, end at once where it is gone already."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, number)
    if parent is not None and os.getppid() != parent:
        os._exit(1)
