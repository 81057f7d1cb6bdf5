"""Entry point: `protofed COMMAND …`.

Exit codes: 0 done; 1 the run failed; 2 wrong usage or configuration; 130 interrupted.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence

from ..core.errors import ConfigError, DataError, ProtofedError
from ..core.user_files import reason, user_line
from . import stop
from .output import WarningLines, tell


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; user errors become one line on stderr."""
    args = list(sys.argv[1:] if argv is None else argv)
    if threading.current_thread() is threading.main_thread():
        stop.asked.clear()
        signal.signal(signal.SIGINT, stop.interrupt)
        signal.signal(signal.SIGTERM, stop.interrupt)
    warnings = WarningLines()
    logging.getLogger("protofed").addHandler(warnings)
    try:
        return _command(args)
    except (ConfigError, DataError) as error:
        return _complain(error, 2)
    except ProtofedError as error:
        return _complain(error, 1)
    except KeyboardInterrupt as interrupt:
        hint = str(interrupt)
        sys.stderr.write(f"\nprotofed: interrupted{'; ' + hint if hint else ''}\n")
        return 130
    except BrokenPipeError:  # the reader of our output went away, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        line = user_line(error)
        if line is None:
            raise
        return _complain(f"{line}: {reason(error)}", 1)
    finally:
        logging.getLogger("protofed").removeHandler(warnings)


def _command(args: Sequence[str]) -> int:
    from .parser import UsageError, make_parser  # takes seconds, in which Ctrl-C may come

    try:
        command, parsed = make_parser(args)
        return command(parsed)
    except UsageError as error:
        return _complain(error, 2)


def _complain(error: Exception | str, code: int) -> int:
    line = " ".join(str(error).split())
    tell(f"protofed: error: {line}")
    return code


if __name__ == "__main__":
    sys.exit(main())
