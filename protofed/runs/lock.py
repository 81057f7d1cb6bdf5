"""The lock of a run directory: one process writes at a time. It ends with its process, however that ends."""

from __future__ import annotations

import os
from pathlib import Path

from ..core.errors import RunError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class Busy(RunError):
    """Another process holds the lock."""


class Lock:
    """Keeps other processes from writing to a folder; released when it is forgotten, too."""

    def __init__(self, path: Path):
        self.path = path
        self._handle: int | None = None

    def take(self) -> None:
        """Unless it is held already; Busy if another process has it."""
        if fcntl is None or self._handle is not None:
            return
        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise Busy(f"{self.path} is being written by another process; wait for it, or stop it") from None
        except OSError:
            pass  # a file system without locks
        self._handle = handle

    def release(self) -> None:
        """If it is held."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    __del__ = release
