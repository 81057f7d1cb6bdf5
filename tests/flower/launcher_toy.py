"""A launcher whose tasks are files NUMBER in a folder; what they hold is done in the forked process."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

from protofed.core.lifeline import end_with_parent
from protofed.deploy.launcher import Launcher, Task

folder = Path(sys.argv[1])


def acquire():
    for path in sorted(folder.glob("[0-9]*")):
        token = path.read_text()
        path.unlink()
        return Task(int(path.name), token)
    return None


def run(task):
    note = folder / f"pid-{task.number}.part"
    note.write_text(str(os.getpid()))
    note.rename(note.with_suffix(""))
    if task.token == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if task.token in ("sleep", "stubborn"):
        time.sleep(60)
    if task.token == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if task.token == "raise":
        raise ValueError("a mistake of the app")
    sys.exit(int(task.token))


end_with_parent(signal.SIGTERM, int(sys.argv[2]))
Launcher(socket.socket(fileno=os.dup(0)), acquire, run).work()
