"""The process from which Flower's apps are forked: `python -m protofed.deploy.launcher WHICH ADDRESS ...`.

Flower's own SuperExec asks once a second whether there is a task, and starts a fresh Python for each: five
seconds of work before a message is looked at. This program takes its place. It imports what an app needs
once; then each task gets a process of its own, made by fork, which runs Flower's program and ends with it.
It has one thread, opens no data and runs no app itself, so tasks have nothing of each other. The token of a
task is never on a command line.

Its input is a socket whose other end its owner holds, a SuperNode or SuperLink (launching.py). A byte from
there means that a task waits; a line goes back for each process that ended; and when the socket closes, the
owner is gone, and all ends.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from ..core.lifeline import end_with_parent
from .forking import ending, fork

LOOK_SECONDS = 1.0  # between two looks where nobody says that there is a task
END_SECONDS = 3.0  # for apps to end, before they are killed
log = logging.getLogger("flwr")


class Kind(NamedTuple):
    """An app: Flower's name of such tasks, its program for them, what to import before; and whether Flower
    collects its output itself."""

    task: str
    program: str
    modules: tuple[str, ...]
    quiet: bool


KINDS = {
    "client": Kind(
        "CLIENT_APP",
        "flwr.supernode.cli:flwr_clientapp",
        (
            "protofed.deploy.client_app",
            "protofed.deploy.site",
            "protofed.deploy.place",
            "protofed.deploy.tested",
            "protofed.flower.respond",
            "protofed.algorithms",
            "protofed.models",
            "protofed.data",
        ),
        False,
    ),
    "server": Kind(
        "SERVER_APP",
        "flwr.superlink.cli:flwr_serverapp",
        ("protofed.deploy.server_app", "protofed.algorithms", "protofed.models", "protofed.data"),
        True,
    ),
}


class Task(NamedTuple):
    """What Flower hands out: its number, and the word with which its process proves that it is meant."""

    number: int
    token: str


class Launcher:
    """Waits for its owner's word, forks, and reports. `acquire` asks Flower for a task."""

    def __init__(
        self,
        owner: socket.socket,
        acquire: Callable[[], Task | None],
        run: Callable[[Task], None],
        quiet: bool = False,
    ):
        self.owner = owner
        self.acquire = acquire
        self.run = run
        self.quiet = quiet
        self._children: dict[int, int] = {}  # numbers of tasks by those of processes
        self._told = False  # to end
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)

    def work(self) -> None:
        """Until the owner is gone, or this process is told to end."""
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)  # a signal wakes the loop below
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._be_told)
        try:
            while not self._told:
                self._reap()
                while not self._told and (task := self.acquire()) is not None:
                    self._start(task)
                if not self._wait():
                    return
        finally:
            self._end_all()

    def _be_told(self, number: int, frame: FrameType | None) -> None:
        """Nothing is raised here: what runs while a process forks would swallow it."""
        self._told = True

    def _start(self, task: Task) -> None:
        inner = (self.owner.fileno(), self._woken, self._wake)
        self._children[fork(lambda: self.run(task), inner, self.quiet)] = task.number

    def _wait(self) -> bool:
        """Until there is something to do. False when the owner is gone."""
        ready, _, _ = select.select([self.owner.fileno(), self._woken], [], [], LOOK_SECONDS)
        if self._woken in ready:
            os.read(self._woken, 4096)
        return self.owner.fileno() not in ready or bool(self.owner.recv(4096))

    def _reap(self) -> None:
        while self._children:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            task, how = self._children.pop(child), ending(os.waitstatus_to_exitcode(status))
            if how:
                log.warning("The process of task %d ended with %s", task, how)
            with contextlib.suppress(OSError):  # the owner is gone: seen at the next look
                self.owner.sendall(f"{task} {how}\n".encode())

    def _end_all(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for child in self._children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, number)
            end = time.monotonic() + END_SECONDS
            while self._children and time.monotonic() < end:
                self._reap()
                time.sleep(0.02)


class Flower:
    """Flower's Runtime interface: gives out tasks to whoever has the secret."""

    def __init__(self, which: Kind, address: str, secret: bytes, authority: str | None):
        self.kind = which
        self.address = address
        self.secret = secret
        self.authority = authority
        self._client: Any = None

    def acquire(self) -> Task | None:
        """The oldest task that waits, None also where nobody answers. The connection is closed before: it is
        not for forks."""
        import httpx
        from flwr.proto.runtime_pb2 import AcquireTaskRequest
        from flwr.supercore.constant import TaskType

        self._client = self._client or self._connect()
        wanted = AcquireTaskRequest(supported_task_types=[TaskType[self.kind.task]])
        try:
            answer = self._client.AcquireTask(wanted)
        except httpx.TransportError:  # Flower is not there yet, or not any more
            return None
        if not (answer.HasField("task") and answer.token):
            return None
        self._client.close()
        self._client = None
        return Task(answer.task.task_id, answer.token)

    def run(self, task: Task) -> None:
        """Flower's own program for a task, with the arguments that its SuperExec would give it."""
        module, name = self.kind.program.split(":")
        trust = ["--root-certificates", self.authority] if self.authority else ["--insecure"]
        given = ["--runtime-api-address", self.address, "--token", task.token, *trust]
        sys.argv = [name, *given]
        getattr(import_module(module), name)()

    def _connect(self) -> Any:
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor, SuperExecAuthHttpInterceptor
        from flwr.supercore.runtime import RuntimeHttpClient

        signed = SuperExecAuthHttpInterceptor(
            master_secret=self.secret, protected_methods=frozenset({"/flwr.proto.Runtime/AcquireTask"})
        )
        return RuntimeHttpClient.from_server_address(
            server_address=self.address,
            insecure=self.authority is None,
            root_certificates=None if self.authority is None else Path(self.authority).read_bytes(),
            interceptors=[RuntimeVersionHttpInterceptor(component_name="SuperExec"), signed],
        )


def main(arguments: Sequence[str]) -> None:
    """The program."""
    parser = argparse.ArgumentParser(prog="launcher")
    parser.add_argument("which", choices=list(KINDS))
    parser.add_argument("address", help="of Flower's Runtime interface")
    parser.add_argument("secret", type=Path, help="file with the secret of Flower's own processes")
    parser.add_argument("--root-certificates", help="file; without it the connection is not encrypted")
    parser.add_argument("--owner", type=int, required=True, help="process at the other end of the input")
    given = parser.parse_args(arguments)
    end_with_parent(signal.SIGTERM, given.owner)
    owner = socket.socket(fileno=os.dup(0))
    kind = KINDS[given.which]
    preload(kind)
    flower = Flower(kind, given.address, given.secret.read_bytes(), given.root_certificates)
    Launcher(owner, flower.acquire, flower.run, kind.quiet).work()


def preload(kind: Kind) -> None:
    """Import what an app of this kind needs, and keep it out of the way of the collector, so that forks share
    its memory. Other programs of this user may not look into it."""
    from flwr.supercore.utils import disable_process_dumping

    from .quick import quick_pulls

    disable_process_dumping(strict=False)

    for module in (kind.program.split(":")[0], *kind.modules):
        import_module(module)
    quick_pulls()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main(sys.argv[1:])
