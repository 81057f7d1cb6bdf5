"""Clears up after a simulation, also one that was killed: Ray's processes and the folder with the task.

Each simulation has a process that runs this file and waits at a pipe. The pipe closes when the simulation
ends, however it ends; then the reaper stops what still works in the folder and removes it. Where the reaper
was killed too, the next simulation does it. Linux only; elsewhere the folder goes with an ordinary end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

OWNER = "owner"  # file in the folder: number and start of the process that made it
PROC = Path("/proc")
PATIENCE = 10.0  # seconds


def claim(folder: Path) -> None:
    """Write down whose folder it is."""
    (folder / OWNER).write_text(f"{os.getpid()} {started(os.getpid())}")


def started(pid: int) -> str:
    """When a process began, in ticks since the start of the machine; empty where it is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def abandoned(parent: Path, prefix: str) -> Iterator[Path]:
    """Folders of this user whose processes are gone."""
    for folder in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            ours = folder.stat().st_uid == os.getuid() and (folder / OWNER).exists()
            if ours and PROC.exists() and owner(folder) is None:
                yield folder


def owner(folder: Path) -> int | None:
    """The process whose folder it is, if it lives."""
    try:
        pid, began = (folder / OWNER).read_text().split()
        return int(pid) if started(int(pid)) == began else None
    except (OSError, ValueError):
        return None


def clear(folder: Path, patience: float = PATIENCE) -> None:
    """Stop the processes that work in a folder, except its owner, and remove it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + patience / 2
        while (found := workers(folder)) and time.monotonic() < end:
            for pid in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
            time.sleep(0.2)
    shutil.rmtree(folder, ignore_errors=True)


def workers(folder: Path) -> list[int]:
    """Processes of this user that name the folder in their command, or have a file in it open."""
    if not PROC.exists():
        return []
    numbers = (int(path.name) for path in PROC.iterdir() if path.name.isdigit())
    spared = {os.getpid(), owner(folder)}
    return [pid for pid in numbers if pid not in spared and _works_in(pid, f"{folder}{os.sep}")]


def _works_in(pid: int, folder: str) -> bool:
    try:
        if (PROC / str(pid)).stat().st_uid != os.getuid():
            return False
        if folder.encode() in (PROC / str(pid) / "cmdline").read_bytes():
            return True
        links = [os.readlink(link) for link in (PROC / str(pid) / "fd").iterdir()]
    except OSError:
        return False
    return any(link.startswith(folder) for link in links)


def main(folder: str) -> None:
    """Wait for the end of whoever holds the other end of the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    clear(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1])
