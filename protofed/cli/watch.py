"""`protofed watch RUN`: the report of a run while it goes on; and the same beside `protofed run --watch`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from ..reports.live import LivePage, follow
from ..runs.directory import RunDir
from .output import tell

END_SECONDS = 60.0


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "watch",
        description="Serves the page of `protofed report` on 127.0.0.1 until the run is finished, or Ctrl-C.",
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any that is free)")
    parser.add_argument("--beside", action="store_true", help=argparse.SUPPRESS)  # see Beside
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Serve the page until interrupted."""
    directory = RunDir.open(args.run)
    if not 0 <= args.port < 65536:
        raise ConfigError(f"--port: expected 0 to 65535, got {args.port}")
    if directory.summary is not None and not args.beside:
        tell(f"{args.run} is finished already: protofed report {args.run}")
        return 0
    gone = threading.Event()
    with LivePage(directory, args.port) as live:
        if args.beside:
            sys.stdout.write(live.url + "\n")
            sys.stdout.flush()
            threading.Thread(target=_wait_for_the_end_of_input, args=(gone,), daemon=True).start()
        else:
            tell(f"watch {args.run} at {live.url} (Ctrl-C ends)")
        with suppress(KeyboardInterrupt):  # the way to end it
            follow(live, gone.is_set)
    return 0


def _wait_for_the_end_of_input(gone: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 64):  # not sys.stdin.read(), whose lock would outlive a daemon thread
        pass
    gone.set()


class Beside:
    """`protofed watch` in a process of its own, so that the run has no threads and shares no random state.

    Its input is a pipe from the run: when the run's process ends, however it ends, so does this one.
    """

    def __init__(self, directory: RunDir, wanted: bool):
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        if wanted:
            argv = [sys.executable, "-m", "protofed.cli.main", "watch", str(directory.path), "--beside"]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, start_new_session=True
            )
            assert self._process.stdout is not None
            self.url = self._process.stdout.readline().strip()
            tell(f"watch at {self.url}" if self.url else "protofed: warning: cannot watch")

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._process is None:
            return
        if kind is not None:
            self._process.terminate()
        try:  # a page that is open gets the last round's embeddings first
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
