"""Starting, waiting for and stopping Flower's programs. They end with the process that started them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import tomlkit

from ..core.errors import EngineError
from ..core.lifeline import end_with_parent
from .visible_log import VisibleLog, last_lines

OUTPUT_SECONDS = 2.0  # for the last lines of a program that has ended
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",  # the app needs nothing but protofed
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",  # seconds; where Flower starts apps itself
    "OMP_NUM_THREADS": "1",
}


class Program:
    """One of Flower's programs in its own process group, its output in a file: see visible_log.py."""

    def __init__(self, command: Sequence[str], log: Path, home: Path, cwd: Path):
        log.parent.mkdir(parents=True, exist_ok=True)
        home.mkdir(parents=True, exist_ok=True)
        self.log = log
        self.name = log.stem
        self.process = subprocess.Popen(
            [program(command[0]), *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(home),
            cwd=cwd,
            start_new_session=True,
            preexec_fn=partial(end_with_parent, signal.SIGTERM),
        )
        assert self.process.stdout is not None
        self._output = VisibleLog(self.process.stdout, log)

    def stop(self, seconds: float = 15) -> None:
        """Ask, wait, then kill the whole group."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=seconds)
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except (ProcessLookupError, PermissionError):
                break
            time.sleep(0.5)
        self.process.wait()
        self._output.join(OUTPUT_SECONDS)

    def tail(self, lines: int = 3) -> str:
        """The last lines of its output."""
        if self.process.poll() is not None:
            self._output.join(OUTPUT_SECONDS)
        return last_lines(self.log, lines)


def program(name: str) -> str:
    """This Python, or the program that was installed beside it."""
    if name == "python":
        return sys.executable
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise EngineError(f"{name} is not installed beside {sys.executable}: pip install 'protofed[deploy]'")
    return str(path)


def environment(home: Path) -> dict[str, str]:
    """PATH begins with our own programs, because Flower starts further ones by name."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": path}


def wait_for_port(host: str, port: int, running: Program, seconds: float = 120) -> None:
    """Return once the program listens; EngineError if it ends, or takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if running.process.poll() is not None:
            raise EngineError(f"{running.name} ended at once; see {running.log}: {running.tail()}")
        if listens(host, port):
            return
        time.sleep(0.5)
    raise EngineError(f"{running.name} is not on {host}:{port} after {seconds:.0f} s; see {running.log}")


def listens(host: str, port: int) -> bool:
    """Whether anything accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


def free_port() -> int:
    """A port that nobody uses just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def flower_values(values: Mapping[str, str | int]) -> str:
    """As Flower's --node-config and --run-config want them: TOML in one line."""
    return " ".join(f"{key}={tomlkit.item(value).as_string()}" for key, value in values.items())
