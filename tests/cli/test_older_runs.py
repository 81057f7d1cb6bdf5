"""Runs of earlier versions, without about.json and the participants of a round: all commands take them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from run_surgery import forget_checksums
from small_run import SMALL, Call, lines

NEW = ("participants", "late")


def make_older(run: Path) -> None:
    """Take away what earlier versions did not write."""
    forget_checksums(run)
    (run / "about.json").unlink()
    old = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    assert all(set(NEW) <= set(line) for line in old)
    kept = [{key: value for key, value in line.items() if key not in NEW} for line in old]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))


def numbers(table: str) -> str:
    """A comparison without the times, which are in its second table."""
    return table.split("cost (parameters")[0]


def test_show_and_report(call: Call) -> None:
    settings = (*SMALL, "--partition", "pathological:p=1", "--rounds", "2")
    shown = call("run", "fedproto", *settings, "--out", "a").out
    assert "train on a single class" in shown
    make_older(Path("a"))
    kept = [line for line in shown.splitlines() if not line.startswith("data: ")]  # a note of about.json
    assert call("show", "a").out.splitlines() == kept
    assert call("report", "a", "--out", "a.html").code == 0
    assert "gp_local" in Path("a.html").read_text()


def test_compare_runs_them_anew_and_says_why(call: Call) -> None:
    """They do not tell what data they had. What they reached stays where it is."""
    command = ("compare", "local", "fedproto", *SMALL, "--rounds", "2", "--seeds", "1", "--out", "c")
    table = call(*command).out
    assert "gp_local" in table
    for run in Path("c/runs").iterdir():
        make_older(run)
    again = call(*command)
    assert numbers(again.out) == numbers(table)
    assert "run anew" in again.err
    assert "does not tell what data it had" in again.err
    assert len(list(Path("c/runs").iterdir())) == 4


def test_resume_goes_on_and_writes_what_is_new(call: Call, finished: Callable[..., None]) -> None:
    finished("old")
    finished("new")
    make_older(Path("old"))
    for run, warned in (("old", True), ("new", False)):
        resumed = call("resume", run, "--rounds", "5", "--quiet")
        assert resumed.code == 0
        assert ("whether its data changed cannot be told" in resumed.err) == warned
    assert lines("old")[3:] == lines("new")[3:]
    assert ["participants" in line for line in lines("old")] == [False, False, False, True, True]
    old, new = (json.loads(Path(f"{run}/about.json").read_text()) for run in ("old", "new"))
    assert old["fingerprints"].pop("earlier rounds") == "not known"
    assert (old.pop("format"), new.pop("format")) == (1, 2)  # it stays without checksums
    assert {**old, "folder": ""} == {**new, "folder": ""}  # where each was begun


def test_resume_divides_as_the_earlier_version_did(call: Call) -> None:
    """Some rules merged training and test rows then without being asked to; else the run would go on with
    other samples."""
    pooled = "dirichlet:beta=0.5,pool=true"
    for run in ("old", "new"):
        call("run", "fedproto", *SMALL, "--partition", pooled, "--rounds", "2", "--out", run, "--quiet")
    make_older(Path("old"))
    config = json.loads(Path("old/config.json").read_text())
    Path("old/config.json").write_text(json.dumps({**config, "partition": "dirichlet:beta=0.5"}))
    for run in ("old", "new"):
        assert call("resume", run, "--rounds", "3", "--quiet").code == 0
    assert lines("old")[2:] == lines("new")[2:]
    assert json.loads(Path("old/config.json").read_text())["partition"] == pooled
