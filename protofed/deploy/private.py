"""Files that only their owner may read."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, data: bytes) -> None:
    """A new file with these contents, 0600 from its first moment; an old one is replaced."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def private_folder(path: Path) -> Path:
    """The directory, made if need be, 0700: what is in it is out of others' reach whatever its own mode."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)
    return path


def only_for_owner() -> None:
    """From now on this process and those that it starts create files 0600 and directories 0700."""
    os.umask(0o077)
