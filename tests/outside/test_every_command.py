"""Every command that takes a method, with one that lies in a file of the user's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from refusals import SMALL, Call

import protofed
from protofed.testing import CHECKS, Toy

MINE = "fedmedian.py:FedMedian"


def test_run_show_and_repeat(call: Call, folder: Path) -> None:
    """The run is named after the class; its config.json repeats it to the bit."""
    done = call("run", MINE, *SMALL, "--lam", "0.5")
    assert done.code == 0, done.err
    assert done.out.startswith(f"{MINE} (default) on digits")
    (path,) = Path("runs").iterdir()
    assert path.name.startswith("FedMedian-digits-")
    assert json.loads((path / "summary.json").read_text())["method"] in (MINE, "FedMedian")
    assert MINE in call("show", str(path)).out
    again = call("run", str(path / "config.json"), "--out", "again", "--json")
    assert again.code == 0, again.err
    first = json.loads((path / "metrics.jsonl").read_text().splitlines()[-1])["acc"]
    assert json.loads(Path("again/metrics.jsonl").read_text().splitlines()[-1])["acc"] == first


def test_help_lists_the_options(call: Call) -> None:
    found = call("run", MINE, "--help")
    assert found.code == 0
    assert "options of fedmedian.py:FedMedian" in found.out
    assert "--lam NUMBER" in found.out
    assert "--lam NUMBER" in call("sweep", MINE, "--help").out
    listed = call("list", "methods", MINE).out
    assert "The median of prototypes" in listed
    assert "weight of the prototype term" in listed


def test_compare_with_others_and_itself(call: Call) -> None:
    """Beside a built-in method, and once more with another λ: three rows."""
    found = call("compare", "local", MINE, f"{MINE}:lam=0", *SMALL, "--seeds", "1", "--out", "c", "--quiet")
    assert found.code == 0, found.err
    records = json.loads(Path("c/comparison.json").read_text())
    lines = records["rows"]
    rows = {line["method"] for line in lines}
    assert rows == {"local", MINE, f"{MINE}:lam=0"}


def test_sweep(call: Call) -> None:
    found = call("sweep", MINE, "--over", "lam=0,1", *SMALL, "--out", "s", "--quiet", "--format", "csv")
    assert found.code == 0, found.err
    assert "lam=0" in found.out
    assert "lam=1" in found.out


def test_resume_onboard_report_and_export(call: Call) -> None:
    assert call("run", MINE, *SMALL, "--newcomers", "1", "--out", "r", "--quiet").code == 0
    assert call("resume", "r", "--rounds", "3", "--quiet").code == 0
    assert len(Path("r/metrics.jsonl").read_text().splitlines()) == 3
    joined = call("onboard", "r", "--epochs", "1", "--json")
    assert joined.code == 0, joined.err
    assert "gp_local" in json.loads(joined.out)[0]["joined"]
    assert call("report", "r", "--out", "r.html").code == 0
    assert "FedMedian" in Path("r.html").read_text()
    assert call("track", "r", "--to", "csv").code == 0
    refused = call("advise", "r")
    assert refused.code == 2
    assert refused.err.count("\n") == 1


def test_profile(call: Call) -> None:
    """Before this change only names of built-in methods were taken."""
    found = call("profile", MINE, "--models", "mlp", "--clients", "4", "--profile-rounds", "1", "--json")
    assert found.code == 0, found.err
    assert sum(json.loads(found.out).values()) > 0


def test_recipe_names_a_file_beside_it(call: Call, folder: Path) -> None:
    (folder / "lab").mkdir()
    (folder / "fedmedian.py").rename(folder / "lab" / "mine.py")
    lines = ('method = "mine.py:FedMedian"', 'models = "mlp"', "clients = 4", "rounds = 1")
    (folder / "lab" / "r.toml").write_text("\n".join(lines))
    assert call("run", "lab/r.toml", "--out", "r", "--quiet").code == 0
    assert json.loads(Path("r/config.json").read_text())["method"] == "lab/mine.py:FedMedian"


def test_python(folder: Path) -> None:
    result = protofed.run(MINE, models="mlp", clients=4, rounds=2, options={"lam": 0.5})
    assert result.accuracy() == result.metrics[-1]["acc"]["gp_local"]["mean"]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check, folder: Path) -> None:
    """What every method of the package must show: engines agree, workers to the bit."""
    check(Toy(MINE))


def test_the_template_runs_as_it_is(call: Call, folder: Path) -> None:
    """Copied out of the package, unchanged."""
    template = Path(protofed.__file__).parent / "algorithms" / "_template.py"
    (folder / "mine.py").write_text(template.read_text())
    assert call("run", "mine.py:Template", *SMALL, "--quiet", "--out", "r").code == 0


def test_a_changed_file_is_run_anew(folder: Path) -> None:
    """In one process, as in a notebook: the second run sees the new default of λ."""
    text = (folder / "fedmedian.py").read_text()
    settings = {"models": "mlp", "clients": 4, "rounds": 1}
    first = protofed.run(MINE, **settings).config.make_method()
    (folder / "fedmedian.py").write_text(text.replace("option(1.0,", "option(3.0,"))
    second = protofed.run(MINE, **settings).config.make_method()
    assert (first.lam, second.lam) == (1.0, 3.0)  # type: ignore[attr-defined]
