"""A round over TLS, three clients on one machine: what `protofed deploy measure --deployed` prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from protofed.core.errors import ConfigError, EngineError

from .machine import child_environment

COMMAND = "protofed deploy measure --deployed --json"
KEYS = {"payload", "upload", "ms", "least_ms"}


def read_deployed(file: Path) -> list[dict[str, Any]]:
    """What the command printed into a file."""
    try:
        return _lines(file.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"--deployed: {file} is not what `{COMMAND}` prints") from error


def measure_deployed() -> dict[str, Any]:
    """Run the command: some minutes."""
    argv = [sys.executable, "-m", *COMMAND.split()]
    done = subprocess.run(argv, env=child_environment(), capture_output=True, text=True)
    if done.returncode:
        raise EngineError(f"`{COMMAND}` failed: {done.stderr.strip().splitlines()[-1:]}")
    return {"lines": _lines(done.stdout)}


def _lines(text: str) -> list[dict[str, Any]]:
    found = json.loads(text)
    if not isinstance(found, list) or not found or not all(line.keys() >= KEYS for line in found):
        raise ValueError("other keys")
    return [{**line, "fastest_ms": line["least_ms"]} for line in found]
