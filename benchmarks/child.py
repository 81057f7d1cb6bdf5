"""A contender in a process of its own, told what to do by words on its input.

It answers each word by one line of JSON, among which it may print what it likes. "go" is a round of training,
"test" a test, anything else the end.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, TypeVar

from protofed.core.errors import ConfigError, EngineError

from .machine import child_environment

START_SECONDS = 300
ROUND_SECONDS = 1_800
PREFIX = "protofed-peer "
T = TypeVar("T")


class Child:
    """The process, seen from outside: started, and waited for until it is ready."""

    def __init__(
        self,
        title: str,
        module: str,
        argv: Sequence[str],
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        tests: bool = False,
    ):
        """`module` is run with `argv`, in `folder`; `tests` says that it knows the word."""
        self.title, self.tests = title, tests
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
            cwd=folder,
            env=child_environment() | dict(environment or {}),
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._answer(START_SECONDS)
        except (ConfigError, EngineError):
            self.close()
            raise

    def play(self, turn: int) -> int:
        """A round; the number of samples that were trained on."""
        self._say("go")
        return int(self._answer(ROUND_SECONDS)["samples"])

    def test(self, turn: int) -> None:
        """A test of all clients."""
        self._say("test")
        self._answer(ROUND_SECONDS)

    def pids(self) -> list[int]:
        """The process; those that it starts are found below it."""
        return [self._process.pid]

    def close(self) -> None:
        """Tell it to end, and wait."""
        if self._process.poll() is None:
            self._say("stop")
            try:
                self._process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(timeout=10)
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
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
        """The next line of JSON; what it could not do is an error here."""
        while True:
            try:
                line = self._lines.get(timeout=seconds)
            except queue.Empty as error:
                self._process.kill()
                raise EngineError(f"{self.title} did not answer within {seconds:.0f} s") from error
            if not line:
                raise EngineError(self._ended())
            if line.startswith(PREFIX):
                found: dict[str, Any] = json.loads(line.removeprefix(PREFIX))
                if "error" in found:
                    raise ConfigError(f"{self.title}: {found['error']}")
                return found

    def _ended(self) -> str:
        code = self._process.wait()
        self._complaints.seek(0)
        last = self._complaints.read().strip().splitlines()[-1:]
        return ": ".join([f"the process of {self.title} ended with exit code {code}", *last])


# in the process itself

_out = sys.stdout  # kept, so that answers arrive where what others print is sent elsewhere


def tell(**values: Any) -> None:
    """Answer."""
    _out.write(PREFIX + json.dumps(values) + "\n")
    _out.flush()


def told_to_go() -> bool:
    """Wait for the next word; anything but "go" is the end."""
    return _told() == "go"


class Over(Exception):
    """Told to end."""


def wait_to_go(test: Callable[[], Any]) -> None:
    """Until told to go on; tests meanwhile, as often as told to."""
    while (word := _told()) != "go":
        if word != "test":
            raise Over
        test()
        tell(tested=True)


def run_released(
    settings: dict[str, Any], folder: str, load: Callable[[], T], play: Callable[[T, dict[str, Any]], None]
) -> None:
    """Import released code from a folder of its checkout, and let it play until told to end; without
    settings beside the path it is only imported."""
    sys.path.insert(0, str(Path(settings["path"], folder)))
    try:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), suppress(Over):
            released = load()
            if "clients" in settings:
                play(released, settings)
            else:
                tell(ready=True)
    except ModuleNotFoundError as error:
        tell(error=f"it needs {error.name}, which is not installed: pip install {error.name}")
    except ConfigError as error:
        tell(error=str(error))
    except Exception as error:  # of code that is not ours: whatever it is, the user must see it
        tell(error=f"it failed with {type(error).__name__}: {error}")


def _told() -> str:
    return sys.stdin.readline().strip()
