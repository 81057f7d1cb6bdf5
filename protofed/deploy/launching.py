"""The owner's end of a launcher (see launcher.py): start it, wake it, hear what ended, start it again."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .forking import ending

AGAIN_SECONDS = 5.0  # at least between two starts
log = logging.getLogger("flwr")


class Ended(NamedTuple):
    """A task whose process is gone, and how it ended: empty where all was well. Without a number, the
    launcher itself is gone, and with it all that it had forked."""

    task: int | None
    how: str


def launcher(which: str, address: str, secret: Path, authority: str | None = None) -> list[str]:
    """The command that starts a launcher for apps of a client or of the server, owned by this process."""
    command = [sys.executable, "-P", "-m", "protofed.deploy.launcher", which, address, str(secret)]
    if authority is not None:
        command += ["--root-certificates", authority]
    return [*command, "--owner", str(os.getpid())]


class Launching:
    """A launcher, as long as this process lives."""

    process: subprocess.Popen[bytes]
    _socket: socket.socket
    _rest: bytes  # of a line that is not there as a whole yet

    def __init__(self, command: Sequence[str]):
        self._command = command
        self._start()

    def wake(self) -> None:
        """Tell it that a task waits."""
        with contextlib.suppress(OSError):  # it is gone: seen by `ended`, and the next one begins with a look
            self._socket.send(b"!")

    def ended(self, seconds: float) -> list[Ended]:
        """What has ended, as soon as anything has, or after so many seconds."""
        if (code := self.process.poll()) is not None:
            return self._gone(code, seconds)
        ready, _, _ = select.select([self._socket], [], [], seconds)
        if not ready:
            return []
        received = self._receive()
        if not received:  # it is about to be gone; what it had forked goes with it
            self.process.wait()
            return []
        *lines, self._rest = (self._rest + received).split(b"\n")
        words = [line.decode().partition(" ") for line in lines]
        return [Ended(int(task), how) for task, _, how in words]

    def stop(self, seconds: float = 5.0) -> None:
        """End it and what it has forked."""
        self._socket.close()
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(4096)
        except OSError:
            return b""

    def _start(self) -> None:
        self._began, self._told, self._rest = time.monotonic(), False, b""
        self._socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(self._command, stdin=theirs.fileno())

    def _gone(self, code: int, seconds: float) -> list[Ended]:
        """Told once; started again at once where it had lived for a while."""
        how, told = ending(code) or "code 0", self._told
        if not told:
            self._told = True
            log.warning("The process that starts apps ended with %s; it is started again", how)
        if time.monotonic() - self._began < AGAIN_SECONDS:
            time.sleep(seconds)
        else:
            self._socket.close()
            self._start()
        return [] if told else [Ended(None, how)]
