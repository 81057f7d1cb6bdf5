"""A run that was gone on with after a change: refused where it cannot be, marked wherever it is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from refusals import Call, assert_refused

from protofed.runs.seals import write_whole

MODEL = """from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh())
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        z = self.base(x)
        return z, self.head(z)
"""
MINE = (
    "--models", "module:mine.py:Net", "--clients", "3", "--rounds", "1", "--epochs", "1", "--engine",
    "sequential", "--out", "r", "--quiet",
)  # fmt: skip


def begin(call: Call, method: str) -> dict[str, bytes]:
    """A run with a model of one's own; returns the files that it holds."""
    Path("mine.py").write_text(MODEL)
    assert call("run", method, *MINE).code == 0
    return files()


def files() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path("r").rglob("*") if path.is_file()}


@pytest.mark.parametrize("method", ["local", "fedavg", "fedproto"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("8", "16"), " and is "),  # a layer of another size
        (("self.head", "self.last"), "the tensor model."),  # another name: it would have started afresh
    ],
)
def test_other_layers_are_refused_and_the_run_stays_as_it_was(
    call: Call, method: str, change: tuple[str, str], words: str
) -> None:
    before = begin(call, method)
    Path("mine.py").write_text(MODEL.replace(*change))
    refused = call("resume", "r", "--rounds", "2", "--changed", "current")
    assert_refused(refused, "r cannot go on", words, "--changed kept", code=1)
    assert files() == before
    assert call("resume", "r", "--rounds", "2", "--changed", "kept", "--quiet").code == 0
    assert files()["r/files/mine.py"] == before["r/files/mine.py"]


def test_a_run_gone_on_with_is_marked_where_it_is_read(call: Call) -> None:
    begin(call, "local")
    assert "not one training" not in call("show", "r").out
    Path("mine.py").write_text(MODEL.replace("Tanh", "ReLU"))
    assert call("resume", "r", "--rounds", "2", "--changed", "current", "--quiet").code == 0
    said = "not one training: after round 1, mine.py changed"
    assert f"warning: {said}" in " ".join(call("show", "r").out.split())
    assert call("report", "r", "--out", "r.html", "--points", "8", "--quiet").code == 0
    assert said in Path("r.html").read_text()
    assert json.loads(Path("r/about.json").read_text())["changes"] == ["after round 1, mine.py changed"]


def test_a_comparison_that_cannot_check_it_says_so(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished run is shown also where its data is gone; that it changed on its way stands below."""
    Path("mine.py").write_text(MODEL)
    argv = ("compare", "local", "--models", "module:mine.py:Net", "--clients", "3", "--rounds", "1",
            "--epochs", "1", "--engine", "sequential", "--seeds", "1", "--out", "c", "--quiet")  # fmt: skip
    assert call(*argv).code == 0
    (run,) = Path("c/runs").iterdir()
    about = json.loads((run / "about.json").read_text())
    write_whole(run, "about.json", {**about, "changes": ["after round 1, mine.py changed"]})
    assert "seed 0 is not one training: after round 1, mine.py changed" in call(*argv).out
