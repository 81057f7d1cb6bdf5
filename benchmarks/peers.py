"""W1 on other simulators: the same mathematics, in the plain loop that their users write.

Each peer runs in a process of its own and plays a round when it is told to, so that it can take turns with
the other contenders. The client's code (`peer_client.py`) is the same on all peers; what differs is how the
peer carries it out. A peer that is not installed is named as absent.
"""

from __future__ import annotations

import importlib.util
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from protofed.core.errors import EngineError

from .machine import child_environment

START_SECONDS = 300
ROUND_SECONDS = 1_800
PEERS = {"flower": ("Flower's simulation", ("flwr", "ray")), "pfl": ("pfl", ("pfl",))}


def present() -> tuple[list[str], list[str]]:
    """Names of the peers that are installed, and of those that are not."""
    found = {name: all(map(importlib.util.find_spec, needs)) for name, (_, needs) in PEERS.items()}
    return [name for name in found if found[name]], [name for name in found if not found[name]]


class Peer:
    """A peer in a child process: "go" on its input is answered by a line with the number of samples."""

    def __init__(self, name: str, folder: Path, small: bool):
        self.name = name
        self.title = f"{PEERS[name][0]}, {'all cores' if name == 'flower' else '1 process'}"
        module = f"benchmarks.peer_{name}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(folder), "small" if small else "full"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=child_environment(),
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._answer(START_SECONDS)

    def play(self, turn: int) -> int:
        self._say("go")
        return int(self._answer(ROUND_SECONDS)["samples"])

    def pids(self) -> list[int]:
        return [self._process.pid]

    def close(self) -> None:
        if self._process.poll() is None:
            self._say("stop")
            try:
                self._process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(timeout=10)
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(word + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise EngineError(f"the process of {self.title} ended") from error

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _answer(self, seconds: float) -> dict[str, Any]:
        """The next line of JSON; peers may print other lines."""
        while True:
            try:
                line = self._lines.get(timeout=seconds)
            except queue.Empty as error:
                self._process.kill()
                raise EngineError(f"{self.title} did not answer within {seconds:.0f} s") from error
            if not line:
                raise EngineError(f"the process of {self.title} ended with exit code {self._process.wait()}")
            if line.startswith(PREFIX):
                found: dict[str, Any] = json.loads(line.removeprefix(PREFIX))
                return found


# in the child

PREFIX = "protofed-peer "


def tell(**values: Any) -> None:
    sys.stdout.write(PREFIX + json.dumps(values) + "\n")
    sys.stdout.flush()


def told_to_go() -> bool:
    """Wait for the next word; anything but "go" is the end."""
    return sys.stdin.readline().strip() == "go"
