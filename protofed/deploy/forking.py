"""Processes made by fork: they begin with all that is imported, and with nothing else of their parent's.

Only a process with a single thread may fork: locks that other threads hold would never be released in the
child, and a pool of threads for computing would not be there. See launcher.py, which has one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from ..core.errors import EngineError
from ..core.lifeline import end_with_parent

DEFAULT = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD)
NO_CODE = 1  # what a process ends with that was ended by an exception


def fork(run: Callable[[], None], close: Iterable[int] = (), quiet: bool = False) -> int:
    """Call `run` in a new process and return its number. It ends with this one, has no input, and does not
    keep the descriptors in `close`; with `quiet` it has no output either."""
    check_alone()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    code = NO_CODE
    try:
        _settle(parent, close, quiet)
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else NO_CODE if end.code else 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)  # what the parent had registered for its own end is not for this process


def check_alone() -> None:
    """EngineError if this process has a second thread, of Python or of a library."""
    tasks = Path("/proc/self/task")
    number = len(list(tasks.iterdir())) if tasks.exists() else threading.active_count()
    if number != 1:
        raise EngineError(f"a process with {number} threads must not fork: {threading.enumerate()}")


def ending(code: int) -> str:
    """How a process ended, by its exit code (negative: a signal); empty where all was well."""
    return "" if code == 0 else f"signal {-code}" if code < 0 else f"code {code}"


def _settle(parent: int, close: Iterable[int], quiet: bool) -> None:
    end_with_parent(signal.SIGKILL, parent)
    signal.set_wakeup_fd(-1)
    for number in DEFAULT:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2) if quiet else (0,):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    for descriptor in close:
        os.close(descriptor)
    if "numpy" in sys.modules:  # `random` and OpenSSL see to it themselves, torch has a fixed seed anyway
        sys.modules["numpy"].random.seed()
