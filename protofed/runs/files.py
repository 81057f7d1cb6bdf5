"""Writing files so that a reader sees the old one or the new one, never half of one."""

from __future__ import annotations

import json
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core.errors import RunError


def write_atomic(path: Path, data: bytes, flush: bool = True) -> None:
    """Write, flush to disk, rename. A crash leaves the old file. Without `flush` that holds for a crash of
    the process, not of the machine."""
    part = path.with_name(f".{path.name}.part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            if flush:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all; what is not finite as null."""
    write_atomic(path, as_json(value))


def as_json(value: Any) -> bytes:
    """A value as the content of a JSON file; what is not finite as null."""
    return (json.dumps(finite(value), indent=2) + "\n").encode()


def finite(value: Any) -> Any:
    """NaN and infinities, which JSON does not know, become null."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> Any:
    """The value in a JSON file; an error names the file."""
    try:
        return value_of(path, path.read_bytes())
    except FileNotFoundError as error:
        raise RunError(f"{path} is missing") from error
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error}") from error


def value_of(path: Path, data: bytes) -> Any:
    """The value of what was read from a JSON file."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error
