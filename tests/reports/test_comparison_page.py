"""One page for a whole comparison: rows are means over seeds, under the names of the study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser import look, needs_browser
from reported_runs import SMALL

from protofed.cli.main import main
from protofed.reports import content
from protofed.reports.collect import collect
from protofed.reports.html import write_page
from protofed.reports.rows import as_rows
from protofed.runs.outcome import Outcome


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("study") / "compare"
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    methods = ["local", "fedproto", "fedproto:lam=1"]
    assert main(["compare", *methods, "--seeds", "2", "--out", str(out), "--quiet", *flags]) == 0
    return out


@pytest.fixture(scope="module")
def compared(study: Path) -> dict[str, Any]:
    return collect([study], inside=False)


def test_rows_are_means_over_seeds_under_their_names(study: Path, compared: dict[str, Any]) -> None:
    assert [run["name"] for run in compared["runs"]] == ["local", "fedproto", "fedproto:lam=1"]
    found = json.loads((study / "comparison.json").read_text())
    for line in found["rows"]:  # the table of `compare` has the same numbers
        run = next(one for one in compared["runs"] if one["name"] == line["method"])
        result = run["results"][line["mode"]]
        assert result["mean"] == pytest.approx(line["last"])
        assert result["seeds"] == pytest.approx(line["last_std_seeds"])
        assert result["std"] == pytest.approx(line["last_std_clients"])
        assert run["tests"]["acc"][line["mode"]]["mean"][-1] == pytest.approx(line["last"])
    assert compared["runs"][0]["config"]["seed"] == "0, 1"
    assert len(compared["runs"][0]["clients"]["ids"]) == 2 * SMALL["clients"]


def test_the_header_tells_the_setting_and_no_hash_is_a_name(compared: dict[str, Any]) -> None:
    page = content.page(compared)
    assert page["title"] == "3 rows compared over 2 seeds"
    for part in ("preset default", "data digits", "epochs 1", "lr 0.05", "seeds 0, 1"):
        assert part in page["subtitle"]
    assert any(line.startswith("fedproto:lam=1: ") and "lam 1" in line for line in page["about"])
    assert [group["label"] for group in page["groups"]] == ["local", "fedproto", "fedproto:lam=1"]
    levels = {one.label for chart in content.figures(compared)[:1] for one in chart.series if one.level}
    assert levels == {"majority class", "chance"}


def test_runs_without_a_study_are_joined_if_only_the_seed_differs(study: Path) -> None:
    paths = sorted((study / "runs").iterdir())
    report = collect(paths, inside=False)
    assert len(report["runs"]) == 3
    names = [run["name"] for run in report["runs"]]
    assert "fedproto, lam 1.0" in names or "fedproto, lam 1" in names
    once = collect([paths[0], paths[0]], inside=False)  # a run named twice is no second seed
    assert len(once["runs"]) == 2


def test_a_seed_that_is_behind_is_left_out_and_said(compared: dict[str, Any]) -> None:
    first, second = compared["runs"][1]["seeds"]
    rounds = {key: values[:1] for key, values in second["rounds"].items()}
    row = as_rows([first, {**second, "rounds": rounds}], ["fedproto", "fedproto"])[0]
    assert row["results"] == first["results"]
    assert "seed 1 is behind the others and left out" in row["notes"]


def test_the_newest_of_several_studies_is_shown_and_said(study: Path, tmp_path: Path) -> None:
    found = json.loads((study / "comparison.json").read_text())
    folder = tmp_path / "two"
    folder.mkdir()
    (folder / "runs").symlink_to(study / "runs")
    for name in ("comparison", "comparison-2"):
        (folder / f"{name}.json").write_text(json.dumps({**found, "runs": found["runs"][:2]}))
    report = collect([folder], inside=False)
    assert [run["name"] for run in report["runs"]] == ["local"]
    assert "holds several studies" in report["notes"][0]
    assert Outcome.read(folder / "runs" / found["runs"][0]["run"]).seed == 0


def test_a_study_that_has_not_begun_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [{"row": "local", "seed": 0, "run": "x", "state": "not started"}]
    (tmp_path / "comparison.json").write_text(json.dumps({"runs": runs}))
    assert main(["report", str(tmp_path)]) == 1
    assert "none of its runs has begun" in capsys.readouterr().err
    (tmp_path / "comparison.json").write_text("{}")
    assert main(["report", str(tmp_path / "comparison.json")]) == 1
    assert "is not the file of a study" in capsys.readouterr().err


UNFOLD = (
    "<script>choice.singles = true; redrawAll(); document.querySelector('.theme').click();</script></body>"
)


@needs_browser
def test_seeds_unfold_and_dark_is_a_press_away(compared: dict[str, Any], tmp_path: Path) -> None:
    path = write_page(compared, tmp_path / "page.html")
    folded = look(path)
    assert folded.errors == ""
    path.write_text(path.read_text().replace("</body>", UNFOLD))
    unfolded = look(path)
    assert unfolded.errors == ""
    assert 'data-theme="dark"' in unfolded.dom
    assert dict(unfolded.charts)["accuracy-rounds"] > dict(folded.charts)["accuracy-rounds"]
