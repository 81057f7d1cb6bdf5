"""Runs that fail on the way: NaN from a client, a full disk, folders that cannot be written."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from refusals import SMALL, Call, assert_refused

from protofed.algorithms.fedproto import FedProto
from protofed.runs.directory import RunDir


def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """In round 2 client 2 sends a NaN."""
    good = FedProto.upload

    def upload(self: FedProto, *args: Any) -> Any:
        up, mem = good(self, *args)
        turn = args[-1]
        if (turn.client, turn.round) == (2, 2):
            up = replace(up, mean=up.mean * torch.nan)
        return up, mem

    monkeypatch.setattr(FedProto, "upload", upload)


def test_a_nan_in_an_upload_stops_the_run_by_name(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch)
    got = call("run", "fedproto", *SMALL, "--out", "a", "--quiet")
    assert_refused(got, "fedproto: round 2: upload of client 2: mean:", "values are not finite", code=1)
    assert len(RunDir.open(Path("a")).lines("metrics.jsonl")) == 1


def test_a_nan_in_an_upload_may_be_left_out(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch)
    got = call("run", "fedproto", *SMALL, "--rounds", "3", "--on-failure", "drop", "--out", "a")
    assert got.code == 0
    assert "round 2: client 2 left out: fedproto: round 2: upload of client 2: mean:" in got.err.replace(
        "\n", " "
    )
    failed = [line["failed"] for line in RunDir.open(Path("a")).lines("metrics.jsonl")]
    assert [list(one) for one in failed] == [[], ["2"], []]


def test_a_loss_that_explodes_is_named(call: Call) -> None:
    got = call("run", "local", *SMALL, "--lr", "1e30", "--out", "a", "--quiet")
    assert_refused(got, "local: client 0, round ", "the training loss is", "lower lr", code=1)


def full_disk(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk(call: Call, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setattr(os, step, full_disk)
    got = call("run", *SMALL, "--out", "a", "--quiet")
    assert_refused(got, "cannot write a/", "No space left on device", code=1)


def test_a_disk_that_fills_up_leaves_a_run_to_resume(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    real, count = os.replace, 0

    def fills_up(*args: Any) -> None:
        nonlocal count
        count += 1
        if count > 8:
            full_disk()
        real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fills_up)
        assert_refused(call("run", *SMALL, "--out", "a", "--quiet"), "No space left on device", code=1)
    assert call("resume", "a", "--quiet").code == 0


@pytest.mark.parametrize("out", ["file", "file/below", "file/far/below"])
def test_a_folder_that_cannot_be_made(call: Call, out: str) -> None:
    Path("file").write_text("")
    assert_refused(call("run", *SMALL, "--out", out), f"cannot create {out}: ", code=1)


def test_an_existing_run(call: Call) -> None:
    argv = ("run", "local", *SMALL, "--rounds", "1", "--out", "a", "--quiet")
    assert call(*argv).code == 0
    got = call(*argv)
    assert_refused(got, "a already holds a run", "protofed resume a", "another `out`", "with `force`", code=1)


def test_a_damaged_run(call: Call) -> None:
    call("run", "local", *SMALL, "--rounds", "1", "--out", "a", "--quiet")
    Path("a/config.json").write_text("{")
    Path("a/checkpoint/copies/config.json").write_text("{")
    for command in ("resume", "show", "onboard"):
        got = call(command, "a")
        assert_refused(got, "a/config.json is not what the run wrote", "run it anew with --force", code=1)
