"""Ctrl-C, SIGTERM and kill -9: a run can always be resumed, and ends as if nothing had happened."""

from __future__ import annotations

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
from conftest import Call
from small_run import SMALL, assert_same_run, lines

from protofed.cli.main import main
from protofed.runs.directory import RunDir

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


@pytest.mark.parametrize(
    ("number", "engine"), [(signal.SIGINT, "workers"), (signal.SIGTERM, "sequential")], ids=["ctrl-c", "term"]
)
def test_an_interrupted_process_says_how_to_go_on(call: Call, number: signal.Signals, engine: str) -> None:
    """Ctrl-C reaches all processes of a terminal: the workers, too, end without a word."""
    argv = ["run", "fedproto", *SMALL, "--rounds", "500", "--engine", engine, "--out", "a"]
    command = [sys.executable, "-m", "protofed.cli.main", *argv]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        wait_for_lines(Path("a"), 2, process)
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    last = err.strip().splitlines()[-1]
    assert last.startswith("protofed: interrupted; after round ")
    assert last.endswith("; continue with: protofed resume a")
    done = int(RunDir.open(Path("a")).checkpoints.manifest.read_text().split('"round": ')[1].split(",")[0])
    assert done >= 1
    assert len(lines("a")) >= done


@pytest.fixture(scope="module")
def server() -> Any:
    """Processes forked from one that has imported protofed: each starts within milliseconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["protofed.cli.main", "sklearn.datasets"])
    return context


def start(server: Any, *argv: str) -> BaseProcess:
    process: BaseProcess = server.Process(target=main, args=(list(argv),))
    process.start()
    return process


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
