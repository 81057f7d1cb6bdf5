"""A run is reused or gone on with only where data, split, files and version are what they were."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from refusals import Call, assert_refused

from protofed.runs.seals import write_whole

SMALL = (
    "--partition",
    "iid",
    "--clients",
    "2",
    "--models",
    "mlp:dim=4",
    "--rounds",
    "2",
    "--engine",
    "sequential",
)
DATA = ("--data", "npz:mine.npz", *SMALL)


def write_data(path: Path, seed: int) -> None:
    """Ten features of two classes, different for every seed."""
    random = np.random.default_rng(seed)
    y = np.arange(80) % 2
    x = random.normal(size=(80, 10)).astype(np.float32) + y[:, None]
    np.savez(path, x_train=x[:40], y_train=y[:40], x_test=x[40:], y_test=y[40:])


@pytest.fixture
def mine(call: Call) -> Path:
    write_data(Path("mine.npz"), 0)
    return Path("mine.npz")


def compare(call: Call, *more: str, data: tuple[str, ...] = DATA, out: str = "c") -> tuple[str, str]:
    """The printed records and what was said beside them."""
    found = call("compare", "local", "fedavg", *data, "--seeds", "1", "--out", out, "--format", "csv", *more)
    assert found.code == 0, found.err
    return found.out, found.err


def test_changed_data_is_not_served_from_an_old_run(call: Call, mine: Path) -> None:
    """The same path, other content: the table is that of the new data, as in a folder of its own."""
    before, _ = compare(call)
    write_data(mine, 1)
    after, said = compare(call)
    fresh, _ = compare(call, out="fresh")
    assert accuracies(after) == accuracies(fresh) != accuracies(before)
    assert "local, seed 0: run anew: " in said
    assert "its data npz:mine.npz changed" in said


def accuracies(records: str) -> list[str]:
    return [line.split(",")[6] for line in records.splitlines()[1:]]


def test_what_is_reused_is_said(call: Call, mine: Path) -> None:
    before, said = compare(call)
    assert "reused" not in said
    after, said = compare(call)
    names = sorted(run.name for run in Path("c/runs").iterdir())
    assert re.findall(r"reused \S*/(\S+)", said) == [names[1], names[0]]
    assert accuracies(after) == accuracies(before)


def test_places_do_not_count(call: Call, mine: Path) -> None:
    """The data file and the runs are moved: the content is the same, and so are the runs."""
    compare(call)
    Path("elsewhere").mkdir()
    shutil.move(mine, "elsewhere/other.npz")
    shutil.move("c", "d")
    _, said = compare(call, data=("--data", "npz:elsewhere/other.npz", *SMALL), out="d")
    assert said.count("reused") == 2
    assert len(list(Path("d/runs").iterdir())) == 2


def of_another_version(run: Path) -> None:
    """As if an earlier version had written it, checksums and all."""
    about = json.loads((run / "about.json").read_text())
    write_whole(run, "about.json", {**about, "version": f"0.0.{about['version']}"})


def test_a_run_of_another_version_is_not_reused(
    call: Call, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(call)
    for about in Path("c/runs").glob("*/about.json"):
        of_another_version(about.parent)
    _, said = compare(call)
    assert "protofed was 0.0." in said
    assert "reused" not in said


def test_resume_refuses_changed_data(call: Call, mine: Path) -> None:
    assert call("run", "local", *DATA, "--out", "r", "--quiet").code == 0
    write_data(mine, 1)
    refused = call("resume", "r", "--rounds", "3")
    assert_refused(
        refused, "r is not as it began: its data npz:mine.npz changed", "--changed current", code=1
    )
    assert_refused(call("resume", "r", "--rounds", "3", "--changed", "kept"), "its data", code=1)
    gone_on = call("resume", "r", "--rounds", "3", "--quiet", "--changed", "current")
    assert gone_on.code == 0
    assert "warning: r is not as it began" in gone_on.err
    assert "not as it began" not in call("resume", "r", "--rounds", "4", "--quiet").err
    assert "earlier rounds" in json.loads(Path("r/about.json").read_text())["fingerprints"]


def test_resume_refuses_another_version(call: Call, mine: Path) -> None:
    assert call("run", "local", *DATA, "--out", "r", "--quiet").code == 0
    of_another_version(Path("r"))
    assert_refused(call("resume", "r", "--rounds", "3"), "protofed was 0.0.", code=1)


def test_an_earlier_table_stays(call: Call, mine: Path) -> None:
    """Another comparison in the same folder has files of its own; the same one goes on in its own."""
    compare(call)
    first = Path("c/comparison.md").read_bytes()
    compare(call, "--lr", "0.5")
    assert Path("c/comparison.md").read_bytes() == first
    second = Path("c/comparison-2.md").read_bytes()
    compare(call)
    compare(call, "--lr", "0.5")
    assert Path("c/comparison-2.md").read_bytes() == second
    assert not Path("c/comparison-3.md").exists()
    write_data(mine, 1)
    compare(call)
    assert (Path("c/comparison.md").read_bytes(), Path("c/comparison-2.md").read_bytes()) == (first, second)
    assert Path("c/comparison-3.md").exists()


def test_a_report_says_that_its_data_is_another(call: Call, mine: Path) -> None:
    assert call("run", "local", *DATA, "--out", "r", "--quiet").code == 0
    write_data(mine, 1)
    assert call("report", "r", "--out", "r.html").code == 0
    assert "its data npz:mine.npz changed" in Path("r.html").read_text()


RECIPE = """
data = "npz:mine.npz"
partition = "iid"
clients = 2
models = "mlp:dim=4"
rounds = 1
engine = "sequential"
[about]
title = "A toy"
seeds = 1
[[about.rows]]
name = "A"
method = "local"
[[about.columns]]
name = "x"
[published]
mean = { A = [50.0] }
"""


@pytest.mark.parametrize("study", ["sweep", "reproduce"])
def test_other_studies_reuse_what_matches_and_say_it(call: Call, mine: Path, study: str) -> None:
    """The second time the run is reused by name; with other data at the same path it is run anew."""
    Path("toy.toml").write_text(RECIPE)
    argv = ("sweep", "local", "--over", "lr=0.1", *DATA, "--seeds", "1", "--out", "s")
    argv = argv if study == "sweep" else ("reproduce", "toy.toml", "--out", "s")
    first = call(*argv)
    assert (first.code, "reused" in first.err + first.out) == (0, False), first.err
    (run,) = Path("s/runs").iterdir()
    again = call(*argv)
    assert f"reused s/runs/{run.name}" in again.err + again.out
    write_data(mine, 1)
    anew = call(*argv)
    assert "run anew: " in anew.err + anew.out
    assert "its data npz:mine.npz changed" in anew.err + anew.out
    assert len(list(Path("s/runs").iterdir())) == 2
