"""Run directories: never overwritten unasked, lines that survive a crash, rewinding."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from run_surgery import forget_checksums

from protofed.core.answer import ClientState
from protofed.core.errors import RunError
from protofed.core.record import Nothing
from protofed.engines.store import Store
from protofed.runs.directory import RunDir
from protofed.runs.seals import COPIES

CONFIG = {"method": "local", "seed": 3, "rounds": {"rounds": 3}}


ENGINE: Any = SimpleNamespace(store=Store(), memory=dict)


def run_with(path: Path, rounds: int) -> RunDir:
    run = RunDir.create(path, CONFIG)
    for round in range(1, rounds + 1):
        run.append("clients.jsonl", {"round": round})
        run.append("metrics.jsonl", {"round": round, "loss": 0.5})
    return run


def test_a_new_run_has_its_configuration(tmp_path: Path) -> None:
    RunDir.create(tmp_path / "a" / "b", CONFIG)
    run = RunDir.open(tmp_path / "a" / "b")
    assert run.config == CONFIG
    assert run.summary is None
    assert run.lines("metrics.jsonl") == []


def test_an_existing_run_is_refused_with_three_ways_out(tmp_path: Path) -> None:
    run_with(tmp_path, 2)
    with pytest.raises(RunError, match=r"already holds a run: .*resume.*out.*force"):
        RunDir.create(tmp_path, {})
    assert RunDir.open(tmp_path).config == CONFIG
    assert len(RunDir.open(tmp_path).lines("metrics.jsonl")) == 2


def test_force_starts_over(tmp_path: Path) -> None:
    run = run_with(tmp_path, 2)
    run.checkpoints.save(2, Nothing(), Store())
    run.finish({"rounds": 2})
    run.lock.release()
    new = RunDir.create(tmp_path, {"method": "fedavg"}, force=True)
    assert new.config == {"method": "fedavg"}
    assert new.lines("metrics.jsonl") == new.lines("clients.jsonl") == []
    assert new.summary is None
    assert not new.checkpoints.manifest.exists()


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    RunDir.create(tmp_path, CONFIG, force=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_folder_without_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is not a run directory: it has no config\.json"):
        RunDir.open(tmp_path)


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_path_that_cannot_be_made_is_named(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=rf"^cannot create .*{path}: (File exists|Not a directory)$"):
        RunDir.create(tmp_path / path, CONFIG)


def test_a_file_in_the_way_of_the_checkpoints_is_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("")
    with pytest.raises(RunError, match=r"^cannot create .*: Not a directory$"):
        RunDir.create(tmp_path, CONFIG)


def test_rewinding_drops_later_lines(tmp_path: Path) -> None:
    run = run_with(tmp_path, 3)
    run.save(3, Nothing(), ENGINE)
    for round in (4, 5):
        run.append("metrics.jsonl", {"round": round})
        run.append("clients.jsonl", {"round": round})
    run.rewind(3)
    for name in ("metrics.jsonl", "clients.jsonl"):
        assert [line["round"] for line in run.lines(name)] == [1, 2, 3]
    run.append("metrics.jsonl", {"round": 4})
    assert [line["round"] for line in run.lines("metrics.jsonl")] == [1, 2, 3, 4]


def test_rewinding_to_the_start_and_without_files(tmp_path: Path) -> None:
    run = run_with(tmp_path, 2)
    (tmp_path / "clients.jsonl").unlink()
    run.rewind(0)
    assert run.lines("metrics.jsonl") == []
    assert not (tmp_path / "clients.jsonl").exists()


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_line_cut_off_anywhere_is_left_out(tmp_path_factory: Any, data: st.DataObject) -> None:
    """Cut inside the last line: the others are read; after rewinding, new lines stand on their own."""
    run = run_with(tmp_path_factory.mktemp("run"), 2)
    run.save(2, Nothing(), ENGINE)
    run.append("metrics.jsonl", {"round": 3})
    path = run.path / "metrics.jsonl"
    text = path.read_bytes()
    last = len(text.splitlines()[-1]) + 1
    (run.path / COPIES / "metrics.jsonl").write_bytes(text[:-last])  # is written after the file
    path.write_bytes(text[: len(text) - data.draw(st.integers(2, last))])
    assert [line["round"] for line in run.lines("metrics.jsonl")] == [1, 2]
    run.rewind(2)
    run.append("metrics.jsonl", {"round": 3})
    assert [line["round"] for line in run.lines("metrics.jsonl")] == [1, 2, 3]


def test_numbers_that_are_not_finite_become_null(tmp_path: Path) -> None:
    """NaN is not JSON: other programs could not read the file."""
    run = RunDir.create(tmp_path, CONFIG)
    run.append("metrics.jsonl", {"round": 1, "train_loss": float("nan"), "acc": {"x": [float("inf"), 1.0]}})

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    got = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=refuse)
    assert len(got.pop("check")) == 32
    assert got == {"round": 1, "train_loss": None, "acc": {"x": [None, 1.0]}}


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDir.create(tmp_path, CONFIG)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"cannot write .*metrics\.jsonl: No space left on device"):
        run.append("metrics.jsonl", {"round": 1})


def test_the_summary_is_read_back(tmp_path: Path) -> None:
    run = run_with(tmp_path, 1)
    run.finish({"rounds": 1})
    assert RunDir.open(tmp_path).summary == {"rounds": 1}


def test_a_damaged_configuration_is_named(tmp_path: Path) -> None:
    """Of an earlier version, without checksums."""
    run_with(tmp_path, 1)
    forget_checksums(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(RunError, match=r"config\.json cannot be read"):
        RunDir.open(tmp_path)


def test_after_force_the_sweep_removes_the_old_runs_states(tmp_path: Path) -> None:
    run, store = run_with(tmp_path, 1), Store()
    store.put(5, ClientState({"w": torch.zeros(1)}))
    run.checkpoints.save(9, Nothing(), store)
    run.lock.release()
    new = RunDir.create(tmp_path, CONFIG, force=True)
    new.checkpoints.save(1, Nothing(), Store())
    left = {p.name for p in (tmp_path / "checkpoint").iterdir()}
    assert left == {"manifest.json", "state-1.safetensors", "copies"}


@pytest.mark.parametrize("text", ["{}", "[1]", '"x"', '{"method": "local", "rounds": 5}'])
def test_a_configuration_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)  # of an earlier version
    with pytest.raises(RunError, match="is damaged: it is not the configuration of a run"):
        RunDir.open(tmp_path)


def test_a_summary_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("[1]")  # of an earlier version
    with pytest.raises(RunError, match=r"summary\.json is damaged"):
        assert RunDir(tmp_path).summary


def test_an_earlier_version_left_foreign_bytes_out(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.append("metrics.jsonl", {"round": 1})
    with open(tmp_path / "metrics.jsonl", "ab") as file:
        file.write(b"\xff\xfe\n")
    assert run.lines("metrics.jsonl") == [{"round": 1}]


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    """A second handle on the directory is as good as a second process."""
    run = RunDir.create(tmp_path, CONFIG)
    message = "is being written by another process"
    with run.locked(), pytest.raises(RunError, match=message), RunDir(tmp_path).locked():
        raise AssertionError("two writers")
    with RunDir(tmp_path).locked():
        pass
