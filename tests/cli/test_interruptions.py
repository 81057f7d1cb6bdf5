"""Ctrl-C, SIGTERM and kill -9: a run can always be resumed, and ends as if nothing had happened."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from small_run import SMALL, Call, assert_same_run, call_and_exit, lines

from protofed.cli.main import main

PATIENCE = 60.0  # seconds that a test waits for something to happen before it fails


def wait_for_lines(run: Path, count: int, process: Any) -> None:
    """Until the run has so many lines of metrics, or the process has ended."""
    deadline = time.monotonic() + PATIENCE
    metrics = run / "metrics.jsonl"
    while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= count):
        ended = process.poll() if isinstance(process, subprocess.Popen) else process.exitcode
        if ended is not None or time.monotonic() > deadline:
            return
        time.sleep(0.005)


def assert_resumable(code: int | None, err: str) -> None:
    """Exit code 130, one last line that says how to go on, and a checkpoint."""
    assert code == 130, err
    assert "Traceback" not in err
    last = err.strip().splitlines()[-1]
    assert last.startswith("protofed: interrupted; after round ")
    assert last.endswith("; continue with: protofed resume a")
    manifest = json.loads(Path("a/checkpoint/manifest.json").read_text())
    assert 1 <= manifest["round"] <= len(lines("a"))


def test_ctrl_c_says_how_to_go_on() -> None:
    """It reaches all processes of a terminal: the workers, too, end without a word."""
    argv = ["run", "fedproto", *SMALL, "--rounds", "500", "--engine", "workers", "--out", "a"]
    command, pipe = [sys.executable, "-m", "protofed.cli.main", *argv], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        wait_for_lines(Path("a"), 2, process)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert_resumable(process.returncode, err)


@pytest.fixture(scope="module")
def server() -> Any:
    """Processes forked from one that has imported protofed: each starts within milliseconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["protofed.cli.main", "safetensors.torch", "sklearn.datasets"])
    return context


def start(server: Any, *argv: str) -> BaseProcess:
    process: BaseProcess = server.Process(target=call_and_exit, args=(list(argv), "stderr"))
    process.start()
    return process


def test_sigterm_is_like_ctrl_c(server: Any) -> None:
    process = start(server, "run", "fedproto", *SMALL, "--rounds", "500", "--out", "a")
    wait_for_lines(Path("a"), 2, process)
    process.terminate()
    process.join(PATIENCE)
    assert_resumable(process.exitcode, Path("stderr").read_text())


def test_kill_9_at_any_moment(server: Any, call: Call) -> None:
    """Four kills at random moments of a run of 12 rounds; the end equals an uninterrupted run."""
    settings = (*SMALL, "--rounds", "12", "--quiet")
    call("run", "fedproto", *settings, "--out", "whole")
    moments = random.Random(20211)
    process = start(server, "run", "fedproto", *settings, "--out", "killed")
    kills = 0
    for lines_before in (1, 3, 5, 7):
        wait_for_lines(Path("killed"), lines_before, process)
        time.sleep(moments.uniform(0, 0.03))
        process.kill()
        process.join(PATIENCE)
        kills += process.exitcode == -signal.SIGKILL
        process = start(server, "resume", "killed", "--quiet")
    process.join(PATIENCE)
    assert process.exitcode == 0
    assert kills >= 2, "the run ended before it was killed: let it run longer"
    assert_same_run("killed", "whole")
    left = {p.name for p in Path("killed/checkpoint").iterdir()}
    assert left == {p.name for p in Path("whole/checkpoint").iterdir()}


class Crash(BaseException):
    """The process ends here."""


def test_a_crash_at_every_write_to_disk(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop before each fsync and each rename of a run in turn: no moment loses the run."""
    settings = ("local", "--models", "mlp", "--clients", "3", "--sample", "1", "--rounds", "2", "--quiet")
    call("run", *settings, "--engine", "sequential", "--out", "whole")
    calls = 0

    def counted(name: str, stop: int | None) -> Any:
        real = getattr(os, name)

        def step(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == stop:
                raise Crash
            return real(*args)

        return step

    moment, crashed = 0, True
    while crashed:
        moment, calls, run = moment + 1, 0, f"crash-{moment}"
        with monkeypatch.context() as patch:
            for name in ("fsync", "replace"):
                patch.setattr(os, name, counted(name, moment))
            try:
                main(["run", *settings, "--engine", "sequential", "--out", run])
                crashed = False
            except Crash:
                crashed = True
        if Path(run, "config.json").exists():  # else there is no run yet
            assert call("resume", run, "--quiet").code == 0
            assert_same_run(run, "whole")
    assert moment > 15
