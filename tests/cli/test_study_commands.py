"""compare, reproduce, sweep and export as commands."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_run import Call

from protofed.cli.study import given_command
from protofed.runs.directory import RunDir

SMALL = ("--models", "mlp", "--clients", "4", "--epochs", "1", "--engine", "sequential")
RECIPE = """
data = "digits"
partition = "nway:n=3,stdev=1,k=10"
models = "mlp"
clients = 4
rounds = 2

[about]
title = "A toy"
paper = "Somebody, 2020"
tolerance = 5.0
seeds = 1
x = "λ"

[[about.rows]]
name = "FedProto"
method = "fedproto"

[[about.columns]]
name = "λ=0"
x = 0.0
options = { fedproto = { lam = 0.0 } }

[[about.columns]]
name = "distance, λ=1"
x = 1.0
measure = "proto_distance"

[published.mean]
FedProto = [1.0, nan]
"""


def rows_of(path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(Path(path).read_text())))


def test_compare(call: Call) -> None:
    argv = ("compare", "local", "fedproto:lam=0.5", "scaffold", *SMALL, "--rounds", "2", "--seeds", "2")
    found = call(*argv, "--out", "c")
    assert found.code == 0
    assert "fedproto:lam=0.5" in found.out
    assert "scaffold: cannot be run here: scaffold needs plain SGD" in found.out
    assert "local, seed 1: finished\n" in found.err
    assert "for the same reason" not in found.err
    assert sorted(p.name for p in Path("c").iterdir()) == [
        "comparison.csv", "comparison.json", "comparison.md", "comparison.tex", "runs",
    ]  # fmt: skip
    rows = rows_of("c/comparison.csv")
    assert {row["method"] for row in rows} == {"local", "fedproto:lam=0.5"}
    assert json.loads(Path("c/comparison.json").read_text())["refused"]["scaffold"]


def test_compare_in_other_formats(call: Call) -> None:
    argv = ("compare", "local", *SMALL, "--rounds", "1", "--seeds", "1", "--out", "c", "--quiet")
    assert call(*argv, "--format", "markdown").out.startswith("### digits")
    assert r"\begin{tabular}" in call(*argv, "--format", "latex").out
    (row,) = csv.DictReader(io.StringIO(call(*argv, "--format", "csv").out))
    assert (row["method"], row["mode"]) == ("local", "clf")
    (record,) = json.loads(call(*argv, "--json").out)
    assert record.keys() == row.keys()
    assert record["last"] == float(row["last"])
    assert record["p"] is None  # NaN, which JSON does not know
    assert call(*argv).err == ""


def test_every_run_of_a_seed_has_the_same_batches_and_split(call: Call) -> None:
    """FedProto without its term trains as Local does: same split, first weights and batches."""
    argv = ("compare", "local", "fedproto:lam=0", *SMALL, "--rounds", "3", "--seeds", "1", "--out", "c")
    assert call(*argv, "--quiet").code == 0
    one, two = (RunDir.open(p).lines("clients.jsonl") for p in sorted(Path("c/runs").iterdir()))
    assert [line["acc"]["clf"] for line in one] == [line["acc"]["clf"] for line in two]


def test_a_killed_comparison_goes_on(tmp_path: Path, call: Call) -> None:
    """A real process that is told to end while it runs; the same command finishes the work."""
    argv = ["compare", "local", "fedproto", *SMALL, "--rounds", "12", "--seeds", "1", "--out", "c"]
    process = subprocess.Popen(
        [sys.executable, "-m", "protofed.cli.main", *argv], stderr=subprocess.PIPE, cwd=tmp_path, text=True
    )
    until = time.monotonic() + 60
    while not list(Path("c/runs").glob("local*/checkpoint/manifest.json")) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "give the same command to go on" in err
    assert call(*argv, "--quiet").code == 0
    runs = [RunDir.open(path) for path in Path("c/runs").iterdir()]
    assert [len(run.lines("metrics.jsonl")) for run in runs] == [12, 12]


def test_the_command_on_a_page_is_the_one_for_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["protofed", "reproduce", "fp-t2", "--budget", "1h", "--out=runs/a b", "--methods", "FedProto"]
    monkeypatch.setattr(sys, "argv", [*words, "--publish", "page.md"])
    assert given_command() == "protofed reproduce fp-t2 --methods FedProto"


def test_a_budget_leaves_work_and_says_so(call: Call) -> None:
    argv = ("compare", "local", "fedproto", *SMALL, "--rounds", "500", "--seeds", "1", "--out", "c")
    found = call(*argv, "--budget", "1s")
    assert found.code == 0
    assert "runs are not finished: give the same command to go on" in found.err
    assert " of 500" in found.out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("compare", "fedprotto"), "unknown method 'fedprotto'"),
        (("compare", "local", "--set", "lam=1"), "write options with the method"),
        (("compare", "local", "--budget", "20"), "budget: expected a time"),
        (("compare", "local", "--seeds", "0"), "seeds: must be at least 1"),
        (("reproduce", "fp-t22"), "unknown recipe 'fp-t22'"),
        (("reproduce", "fp-t2", "--seeds", "0"), "seeds: must be at least 1"),
        (("reproduce", "fp-t2", "--methods", "Fed"), "unknown method 'Fed'"),
        (("reproduce", "fp-t2", "--columns", "n=9"), "unknown column 'n=9'"),
        (("reproduce", "missing.toml"), "recipe missing.toml"),
        (("sweep", "fedproto"), "say what is varied"),
        (("sweep", "fedprotto", "--over", "lam=1"), "unknown method 'fedprotto'"),
        (("sweep", "fedproto", "--over", "lamb=1"), "unknown option or setting 'lamb'"),
        (("sweep", "fedproto", "--over", "lam=0..1"), "--optuna"),
        (
            ("sweep", "fedproto", "--over", "lam=0..1", "--optuna", "1", "--budget", "1m"),
            "--budget works with",
        ),
        (("sweep", "fedproto", "--over", "lam=0..1", "--optuna", "0"), "at least one trial"),
        (
            ("sweep", "fedproto", "--over", "agg=weighted,median", "--optuna", "2"),
            "agg: unknown value 'median'",
        ),
        (("sweep", "fedproto", "--over", "lam=-1..1", "--optuna", "2"), "lam: must be at least 0"),
        (("run", "--track", "xml"), "unknown tracker 'xml'"),
        (("track", "nothing", "--to", "csv"), "nothing is not a run directory"),
        (("track", "a", "b", "--to", "csv:all.csv"), "one file takes one run"),
        (("compare", "local", "--modes", "foo"), "unknown prediction mode 'foo'"),
        (("compare", "fedproto:seed=7", "local"), "give --seed"),
        (("compare", "fedproto:data=mnist", "local"), "data is the same for all methods"),
        (("reproduce", "tgp-t5", "--clients", "10"), "tgp-t5: is computed as printed; clients cannot be"),
        (("sweep", "fedproto", "--over", "lam=0,1", "--over", "lam=2"), "a name stands in two --over"),
        (("sweep", "fedproto", "--over", "lam=1,1.0"), "lam=1 and lam=1.0 are the same run"),
        (("sweep", "fedproto", "--over", "lr=,"), "no value"),
        (("sweep", "fedproto", "--over", "lam=1,2", "--plot", "x.xyz"), "unknown kind of file"),
    ],
)
def test_mistakes_are_one_line(call: Call, argv: tuple[str, ...], message: str) -> None:
    found = call(*argv)
    assert found.code in (1, 2)
    assert message in found.err
    assert found.err.count("\n") == 1
    assert not Path("runs").exists()


def test_recipes_are_listed(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROTOFED_DATA", raising=False)
    found = call("reproduce")
    assert found.code == 0
    assert "fp-t2" in found.out
    assert "missing: mnist.npz" in found.out


def test_costs_are_reproduced_at_once(call: Call) -> None:
    found = call("reproduce", "tgp-t5")
    assert found.code == 0
    assert "36.99 (36.99) +0.00 =" in found.out
    assert sorted(p.name for p in Path("runs/tgp-t5").iterdir()) == ["tgp-t5.csv", "tgp-t5.json", "tgp-t5.md"]
    cells = json.loads(Path("runs/tgp-t5/tgp-t5.json").read_text())["rows"]
    assert {cell["verdict"] for cell in cells} == {"agrees", "not run"}


def test_reproduce_runs_measures_and_draws(call: Call) -> None:
    Path("toy.toml").write_text(RECIPE)
    found = call("reproduce", "toy.toml", "--rounds", "1", "--engine", "sequential")
    assert found.code == 0
    assert "1 of 2 rounds" in found.out
    text = Path("runs/toy/toy.md").read_text()
    assert "not comparable" in text
    assert "no number" in text
    cells = json.loads(Path("runs/toy/toy.json").read_text())["rows"]
    assert cells[1]["ours"] > 0  # the distance of prototypes
    whole = call("reproduce", "toy.toml", "--engine", "sequential", "--quiet")
    assert "1 of 2 rounds" not in whole.out
    assert "↑" in whole.out
    assert Path("runs/toy/toy.png").exists()


def test_sweep(call: Call) -> None:
    argv = ("sweep", "fedproto", *SMALL, "--rounds", "1", "--over", "lam=0,1", "--over", "partition.k=5,8")
    found = call(*argv, "--out", "s", "--plot", "s/map.svg")
    assert found.code == 0
    rows = rows_of("s/sweep.csv")
    assert [(r["lam"], r["partition.k"]) for r in rows if r["main"] == "True"] == [
        ("0", "5"), ("0", "8"), ("1", "5"), ("1", "8"),
    ]  # fmt: skip
    assert Path("s/map.svg").read_text().lstrip().startswith("<?xml")
    again = call(*argv, "--out", "s", "--plot", "s/map.svg")
    assert again.out == found.out
    assert "finished" not in again.err.replace("not finished", "")


def test_track_and_export(call: Call) -> None:
    assert (
        call("run", "fedproto", *SMALL, "--rounds", "2", "--out", "r", "--track", "csv", "--quiet").code == 0
    )
    rows = rows_of("r/metrics.csv")
    assert [row["round"] for row in rows] == ["1", "2"]
    assert call("track", "r", "--to", "csv:other.csv").code == 0
    assert Path("other.csv").read_text() == Path("r/metrics.csv").read_text()
