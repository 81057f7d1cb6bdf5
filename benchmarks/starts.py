"""How long it takes until something happens: `protofed --help`, and the first step of `protofed run`.

Both take turns with a Python that does nothing. The first step is the first one that the optimiser makes at
any client, of FedProto on the embedded digits, on the engine that `auto` chooses; the run is then ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import Any

from protofed.core.errors import EngineError

from .machine import Timed, child_environment, spans

WATCHED = """
import os, sys
from contextlib import nullcontext
from protofed.cli.main import main
from protofed.core.stages import watched

def watch(name):
    if name == "optimiser":
        os.write(1, b"first step\\n")
    return nullcontext()

with watched(watch):
    main(["run", "fedproto", "--data", "digits", "--out", sys.argv[1], "--quiet"])
"""

NOTHING, HELP, FIRST_STEP = "python -c pass", "protofed --help", "protofed run"


def starts(repeats: int) -> dict[str, Any]:
    """Seconds of each, by the clock and of CPU; a first turn warms the file system up."""
    turns = {name: list[Timed]() for name in (NOTHING, HELP, FIRST_STEP)}
    for turn in range(repeats + 1):
        taken = {
            NOTHING: _whole("-c", "pass"),
            HELP: _whole("-m", "protofed", "--help"),
            FIRST_STEP: _to_first_step(),
        }
        for name, timed in taken.items() if turn else ():
            turns[name].append(timed)
    return {"repeats": repeats, **spans(turns)}


def _whole(*argv: str) -> Timed:
    """A Python from its start to its end."""
    before = Timed.now()
    command = [sys.executable, *argv]
    subprocess.run(command, env=child_environment(), check=True, stdout=subprocess.DEVNULL)
    return Timed.now().since(before)


def _to_first_step() -> Timed:
    with tempfile.TemporaryDirectory() as folder:
        before = Timed.now()
        process = subprocess.Popen(
            [sys.executable, "-c", WATCHED, f"{folder}/run"],
            env=child_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        if "first step\n" not in process.stdout:  # reads up to it
            raise EngineError(f"protofed run ended with exit code {process.wait()} before its first step")
        taken = Timed.now([process.pid]).since(before)
        process.terminate()
        process.communicate()
        return taken
