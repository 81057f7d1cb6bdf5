"""Processes by fork, the launcher that makes them, and its owner's end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from protofed.core.errors import EngineError
from protofed.deploy import launching as launching_module
from protofed.deploy.forking import check_alone
from protofed.deploy.launching import Ended, Launching, launcher

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="fork is for Linux")
TOY = Path(__file__).with_name("launcher_toy.py")


# a process by fork: in a process of its own, since pytest has threads

FORKED = """
import json, os, random, sys
import numpy as np
from protofed.deploy.forking import ending, fork
read, write = os.pipe()
extra = os.dup(1)
np.random.seed(1); random.seed(1)
def run():
    left = []
    for number in (0, extra, read):
        try: left.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError: left.append("closed")
    drawn = np.random.random(), random.random()
    os.write(write, json.dumps((os.getcwd(), os.environ["WORD"], left, drawn)).encode())
    sys.exit(CODE)
child = fork(run, close=[extra, read])
print(ending(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
print(os.read(read, 4096).decode())
"""


@pytest.mark.parametrize(
    ("code", "how"),
    [("0", ""), ("7", "code 7"), ("None", ""), ("'why'", "code 1"), ("os.kill(os.getpid(), 9)", "signal 9")],
)
def test_a_fork_has_surroundings_and_no_descriptors(tmp_path, code, how):
    environment = {**os.environ, "WORD": "kept", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FORKED.replace("CODE", code)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    ended, seen = done.stdout.splitlines()
    cwd, word, left, drawn = json.loads(seen)
    assert (ended, cwd, word, left) == (how, str(tmp_path), "kept", ["/dev/null", "closed", "closed"])
    assert drawn[0] != pytest.approx(0.417022004702574)  # what NumPy's first number after seed 1 is
    assert drawn[1] != pytest.approx(0.13436424411240122)  # and Python's


def test_a_process_with_a_second_thread_does_not_fork():
    done = threading.Event()
    threading.Thread(target=done.wait).start()
    with pytest.raises(EngineError, match="must not fork"):
        check_alone()
    done.set()


def test_what_is_imported_before_starts_no_thread():
    """Both kinds of apps; torch and the app are there, and the process may still fork."""
    code = """
import sys
from protofed.deploy.forking import check_alone
from protofed.deploy.launcher import KINDS, preload
for kind in KINDS.values():
    preload(kind)
check_alone()
print({"torch", "protofed.deploy.client_app", "protofed.deploy.server_app"} <= set(sys.modules))
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout == "True\n", done.stderr


# the launcher


class Toy(Launching):
    def __init__(self, folder):
        self.folder = folder
        super().__init__([sys.executable, str(TOY), str(folder), str(os.getpid())])

    def give(self, number, token):
        part = self.folder / f"part{number}"
        part.write_text(token)
        part.rename(self.folder / str(number))
        self.wake()

    def pid(self, number):
        path = self.folder / f"pid-{number}"
        wait_for(path.exists)
        return int(path.read_text())

    def hear(self, seconds=30):
        end = time.monotonic() + seconds
        while not (found := self.ended(0.1)):
            assert time.monotonic() < end
        return found


@pytest.fixture
def toy(tmp_path):
    made = Toy(tmp_path)
    yield made
    made.stop()


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("token", "how"), [("0", ""), ("3", "code 3"), ("raise", "code 1"), ("kill", "signal 9")]
)
def test_each_task_has_a_process_whose_end_is_told(toy, token, how):
    toy.give(5, token)
    assert toy.hear() == [Ended(5, how)]
    assert toy.pid(5) not in (os.getpid(), toy.process.pid)


def test_tasks_run_beside_each_other(toy):
    toy.give(1, "sleep")
    toy.pid(1)
    toy.give(2, "0")
    assert toy.hear() == [Ended(2, "")]
    os.kill(toy.pid(1), signal.SIGTERM)
    assert toy.hear() == [Ended(1, "signal 15")]


@pytest.mark.parametrize("token", ["sleep", "stubborn"])
def test_what_was_forked_ends_when_the_launcher_is_told_to(toy, token):
    toy.give(1, token)
    child = toy.pid(1)
    toy.process.terminate()
    wait_for(lambda: gone(child))
    assert toy.process.wait(timeout=10) == 0


def test_a_killed_launcher_takes_its_processes_along_and_is_started_again(toy, monkeypatch, caplog):
    monkeypatch.setattr(launching_module, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(launching_module.log, "propagate", True)
    toy.give(1, "sleep")
    child, first = toy.pid(1), toy.process.pid
    os.kill(first, signal.SIGKILL)
    assert toy.hear() == [Ended(None, "signal 9")]
    assert "The process that starts apps ended with signal 9; it is started again" in caplog.text
    wait_for(lambda: gone(child))
    toy.give(2, "4")
    assert toy.hear() == [Ended(2, "code 4")]
    assert toy.process.pid != first


def test_one_that_ends_at_once_is_not_started_again_and_again(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(launching_module.log, "propagate", True)
    made = Launching([sys.executable, "-c", "raise SystemExit(2)"])
    first = made.process
    first.wait()
    assert [made.ended(0.01) for _ in range(3)] == [[Ended(None, "code 2")], [], []]
    assert made.process is first
    assert caplog.text.count("ended with code 2") == 1
    made.stop()


OWNER = """
import sys, time
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_launcher import Toy
toy = Toy(Path(sys.argv[1]))
toy.give(1, "stubborn")
print(toy.process.pid, toy.pid(1), flush=True)
time.sleep(60)
"""


def test_all_end_when_the_owner_is_killed(tmp_path):
    code = OWNER.format(tests=str(Path(__file__).parent))
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as one:
        started = [int(word) for word in one.stdout.readline().split()]
        assert len(started) == 2
        one.kill()
    for pid in started:
        wait_for(lambda pid=pid: gone(pid))


def test_the_command_names_a_file_with_the_secret_and_no_token(tmp_path):
    command = launcher("client", "127.0.0.1:1", tmp_path / "processes")
    assert command[-5:] == ["client", "127.0.0.1:1", str(tmp_path / "processes"), "--owner", str(os.getpid())]
    assert not any("token" in word for word in command)
