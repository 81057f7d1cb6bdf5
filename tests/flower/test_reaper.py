"""A simulation listens on loopback alone, and leaves nothing behind, even if it is killed."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from protofed.flower import reaper
from protofed.flower.ray_place import PREFIX

WORK = "import sys, time; file = open(sys.argv[1]); print('ready', flush=True); time.sleep(600)"
PARENT = """
import subprocess, sys, time
from pathlib import Path
from protofed.flower import ray_place, reaper
root = Path(sys.argv[1]); reaper.claim(root); ray_place.start_reaper(root)
print("ready", flush=True); time.sleep(600)
"""
SIMULATION = """
import time
from protofed.flower.simulation import Runtime
runtime = Runtime(2)
while len(runtime.ids()) < 2: time.sleep(0.2)
(runtime.root / "task-x.pickle").write_bytes(b"samples")
import ray
while not ray.is_initialized(): time.sleep(0.2)
time.sleep(2)  # until its workers listen as well
print(runtime.root, ray.get_runtime_context().gcs_address, flush=True)
time.sleep(600)
"""


def wait(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def started(*arguments, **more):
    process = subprocess.Popen([sys.executable, "-c", *arguments], stdout=subprocess.PIPE, text=True, **more)
    return process, process.stdout.readline().split()


def end(process):
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture
def root(tmp_path):
    root = tmp_path / f"{PREFIX}x"
    root.mkdir()
    (root / "data").write_text("samples")
    return root


def test_folders_of_the_living_stay(root):
    reaper.claim(root)
    assert list(reaper.abandoned(root.parent, PREFIX)) == []
    (root / reaper.OWNER).unlink()
    assert list(reaper.abandoned(root.parent, PREFIX)) == []  # just made, or not ours


@pytest.mark.parametrize("owner", ["{pid} 1", "99999999 1"])
def test_folders_of_the_dead_are_found(root, owner):
    """Gone, or a later process with the same number."""
    (root / reaper.OWNER).write_text(owner.format(pid=os.getpid()))
    assert list(reaper.abandoned(root.parent, PREFIX)) == [root]


def test_who_works_in_a_folder_is_stopped_and_others_are_not(root, tmp_path):
    (tmp_path / "other").write_text("")
    inside, _ = started(WORK, str(root / "data"))
    outside, _ = started(WORK, str(tmp_path / "other"))
    try:
        assert reaper.workers(root) == [inside.pid]
        reaper.clear(root, patience=4)
        assert inside.wait(timeout=10) == -signal.SIGTERM
        assert not root.exists()
        assert outside.poll() is None
    finally:
        end(inside)
        end(outside)


def test_the_owner_itself_is_spared(root):
    """It has files of the folder open while it ends in the ordinary way."""
    reaper.claim(root)
    with open(root / "data"):
        done = subprocess.run([sys.executable, "-I", reaper.__file__, str(root)], input=b"", check=True)
    assert done.returncode == 0
    assert not root.exists()


def test_a_killed_process_is_cleared_up_after(root):
    parent, _ = started(PARENT, str(root))
    inside, _ = started(WORK, str(root / "data"))
    try:
        assert root.exists()
        os.kill(parent.pid, signal.SIGKILL)
        wait(lambda: not root.exists())
        assert inside.wait(timeout=10) < 0
    finally:
        end(parent)
        end(inside)


@pytest.mark.slow
def test_ray_listens_on_loopback_with_a_token_and_is_gone_after_a_kill(tmp_path):
    """Every listening socket of the simulation; a call without the token; then kill -9."""
    parent, (folder, address) = started(SIMULATION, start_new_session=True)
    try:
        ours = {parent.pid, *reaper.workers(reaper.Path(folder))}
        ours |= {child.pid for pid in list(ours) for child in psutil.Process(pid).children(recursive=True)}
        found = [one for one in psutil.net_connections("tcp") if one.pid in ours and one.status == "LISTEN"]
        assert len(found) >= 5
        assert {one.laddr.ip.removeprefix("::ffff:") for one in found} == {"127.0.0.1"}
        assert os.stat(folder).st_mode & 0o077 == 0
        assert "InvalidAuthToken" in without_token(address)
        os.kill(parent.pid, signal.SIGKILL)
        wait(lambda: not os.path.exists(folder))
        wait(lambda: not any(psutil.pid_exists(pid) for pid in ours - {parent.pid}))
    finally:
        end(parent)


def without_token(address):
    """What Ray answers to a stranger on the same machine."""
    code = f"""
from ray._raylet import GcsClient
GcsClient(address={address!r}).internal_kv_keys(b"", None)
"""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=bare, capture_output=True, text=True, check=False).stderr
