"""A run that began with relative paths goes on, is reported, repeated and used from another folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from small_run import Call, saved

from protofed.data.moved import spec_from

NET = """
from torch import nn
class Net(nn.Module):
    def __init__(self, shape, num_classes):
        super().__init__()
        self.base, self.head = nn.Linear(shape[0], 5), nn.Linear(5, num_classes)
    def forward(self, x):
        z = self.base(x).relu()
        return z, self.head(z)
"""
SMALL = ("--rounds", "1", "--epochs", "1", "--engine", "sequential", "--quiet")


def table(path: str, seed: int) -> None:
    """Three classes a standard deviation and more apart."""
    rng = np.random.default_rng(seed)
    rows = [f"{rng.normal(k):.3f},{rng.normal(-k):.3f},{'xyz'[k]}" for k in np.arange(90) % 3]
    Path(path).write_text("\n".join(["a,b,label", *rows]) + "\n")


@pytest.fixture
def begun(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data and runs; the test stands in another one."""
    for number in range(3):
        table(f"{number}.csv", number)
    Path("net.py").write_text(NET)
    one = ("--data", "csv:0.csv,label=label", "--partition", "iid", "--clients", "2")
    runs = {"table": (*one, "--models", "module:net.py:Net"), "sites": ("--sites", "1.csv", "2.csv")}
    runs["sites"] += ("--each", "label=label", "--models", "mlp")
    for name, argv in runs.items():
        got = call("run", "fedproto", *argv, *SMALL, "--out", name)
        assert got.code == 0, got.err
    home = Path.cwd()
    other = home / "elsewhere"
    other.mkdir()
    monkeypatch.chdir(other)
    return home


@pytest.mark.parametrize("name", ["table", "sites"])
def test_everything_works_from_another_folder(call: Call, begun: Path, name: str) -> None:
    assert json.loads((begun / name / "about.json").read_text())["folder"] == str(begun)
    got = call("run", f"../{name}/config.json", "--rounds", "2", "--out", "again", "--quiet")
    assert got.code == 0, got.err
    got = call("resume", f"../{name}", "--rounds", "2", "--quiet")
    assert got.code == 0, got.err
    ours, theirs = saved(f"../{name}"), saved("again")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[key]) for key, tensor in ours.items())
    got = call("predict", f"../{name}", "--client", "0", "--data", "csv:../1.csv")
    assert got.code == 0
    assert len(got.out.splitlines()) == 91
    got = call("report", f"../{name}", "--quiet")
    assert got.code == 0, got.err
    assert Path("report.html").stat().st_size > 10_000


def test_data_of_the_same_name_elsewhere_is_not_taken(call: Call, begun: Path) -> None:
    table("0.csv", 9)
    got = call("resume", "../table", "--rounds", "2", "--quiet")
    assert got.code == 0, got.err


def test_written_forms(tmp_path: Path) -> None:
    for name in ("a.csv", "b.npz"):
        (tmp_path / name).touch()
    assert spec_from("csv:a.csv,label=y", tmp_path) == f"csv:{tmp_path}/a.csv,label=y"
    assert spec_from("csv:gone.csv,label=y", tmp_path) == "csv:gone.csv,label=y"
    assert spec_from("digits", tmp_path) == "digits"
    joined = f"sites:{tmp_path}/a.csv|npz:{tmp_path}/b.npz,each=label=y"
    assert spec_from("sites:a.csv|npz:b.npz,each=label=y", tmp_path) == joined
