"""Runs of earlier versions, without about.json and the participants of a round: all commands take them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from small_run import SMALL, Call, lines

NEW = ("participants", "late")


def make_older(run: Path) -> None:
    """Take away what earlier versions did not write."""
    (run / "about.json").unlink()
    old = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    assert all(set(NEW) <= set(line) for line in old)
    kept = [{key: value for key, value in line.items() if key not in NEW} for line in old]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))


def test_show_and_report(call: Call) -> None:
    settings = (*SMALL, "--partition", "pathological:p=1", "--rounds", "2")
    shown = call("run", "fedproto", *settings, "--out", "a").out
    assert "train on a single class" in shown
    make_older(Path("a"))
    assert call("show", "a").out == shown
    assert call("report", "a", "--out", "a.html").code == 0
    assert "gp_local" in Path("a.html").read_text()


def test_compare_reads_them_from_disk(call: Call) -> None:
    command = ("compare", "local", "fedproto", *SMALL, "--rounds", "2", "--seeds", "1", "--out", "c")
    table = call(*command).out
    assert "gp_local" in table
    for run in Path("c/runs").iterdir():
        make_older(run)
    assert call(*command).out == table


def test_resume_goes_on_and_writes_what_is_new(call: Call, finished: Callable[..., None]) -> None:
    finished("old")
    finished("new")
    make_older(Path("old"))
    for run in ("old", "new"):
        assert call("resume", run, "--rounds", "5", "--quiet").code == 0
    assert lines("old")[3:] == lines("new")[3:]
    assert ["participants" in line for line in lines("old")] == [False, False, False, True, True]
    assert Path("old/about.json").read_text() == Path("new/about.json").read_text()
