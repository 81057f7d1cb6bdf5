"""Entry point: `protofed COMMAND …`.

Exit codes: 0 done; 1 the run failed; 2 wrong usage or configuration; 130 interrupted.
"""

from __future__ import annotations

import signal  # nothing heavy here: Ctrl-C may come while modules are imported, and `main` answers it
import sys
from collections.abc import Sequence

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; user errors become one line on stderr."""
    args = list(sys.argv[1:] if argv is None else argv)
    try:
        _listen()
        return _run(args)
    except KeyboardInterrupt as interrupt:
        return _interrupted(str(interrupt))


def _listen() -> None:
    """Ctrl-C and SIGTERM raise KeyboardInterrupt, and are noted."""
    import threading

    from . import stop

    if threading.current_thread() is threading.main_thread():
        stop.asked.clear()
        signal.signal(signal.SIGINT, stop.interrupt)
        signal.signal(signal.SIGTERM, stop.interrupt)


def _run(args: Sequence[str]) -> int:
    """The command, with its errors as lines."""
    import logging
    import os

    from ..core.errors import ConfigError, DataError, ProtofedError
    from . import stop
    from .output import WarningLines

    warnings = WarningLines()
    logging.getLogger("protofed").addHandler(warnings)
    try:
        return _command(args)
    except (ConfigError, DataError) as error:
        return _complain(error, 2)
    except ProtofedError as error:
        return _complain(error, 1)
    except BrokenPipeError:  # the reader of our output went away, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if stop.asked.is_set():  # some modules make an error of their own of Ctrl-C while they are imported
            return _interrupted()
        line = _of_user(error)
        if line is None:
            raise
        return _complain(line, 1)
    finally:
        logging.getLogger("protofed").removeHandler(warnings)


def _command(args: Sequence[str]) -> int:
    from .parser import UsageError, make_parser  # takes seconds, in which Ctrl-C may come

    try:
        command, parsed = make_parser(args)
        return command(parsed)
    except UsageError as error:
        return _complain(error, 2)


def _of_user(error: Exception) -> str | None:
    """An error in the user's own code, or of a folder or disk that cannot be used, as a line; else None."""
    from ..core.user_files import reason, user_line

    if line := user_line(error):
        return f"{line}: {reason(error)}"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"cannot use {error.filename}: {error.strerror}"
    return None


def _complain(error: Exception | str, code: int) -> int:
    from .output import tell

    line = " ".join(str(error).split())
    tell(f"protofed: error: {line}")
    return code


def _interrupted(hint: str = "") -> int:
    sys.stderr.write(f"\nprotofed: interrupted{'; ' + hint if hint else ''}\n")
    return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
