"""Measures of models: while a run goes on, from its last checkpoint, and against other runs."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from run_surgery import forget_checksums

from protofed import experiment
from protofed.analysis.run_metrics import aggregate_mean_margin
from protofed.core.errors import ConfigError
from protofed.runs.directory import RunDir
from protofed.runs.seals import erase_whole
from protofed.studies.cells import cells
from protofed.studies.model_measures import measured
from protofed.studies.recipe import Recipe, read
from protofed.studies.reproduce import Selection, plan_reproduction
from protofed.studies.runner import carry_out
from protofed.studies.study_charts import draw_recipe

RECIPE = """
rounds = 2
clients = 3
models = "mlp:hidden=8"
engine = "sequential"
epochs = 1

[about]
title = "Features"
paper = "Somebody, 2020"
seeds = 1
x = "round"
reference = "Central"
baseline = "FedAvg"

[[about.rows]]
name = "FedAvg"
method = "fedavg"

[[about.rows]]
name = "Margin"
method = "fedproto_margin"

[[about.rows]]
name = "Central"
method = "centralized"

[[about.columns]]
name = "AMM"
measure = "amm"
rounds = [1, 2]

[[about.columns]]
name = "MMD"
measure = "mmd"
rounds = [1, 2]

[[about.columns]]
name = "FFD"
measure = "ffd"

[[about.columns]]
name = "gradients"
measure = "gradients"
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    path = tmp_path_factory.mktemp("recipe") / "features.toml"
    path.write_text(RECIPE)
    return read(path)


@pytest.fixture(scope="module")
def found(
    recipe: Recipe, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[tuple[str, str], float]]:
    """The row Margin alone: the runs that it is compared with come along."""
    root = tmp_path_factory.mktemp("runs")
    plans = plan_reproduction(recipe, Selection(rows=["Margin"]))
    done = carry_out([planned for plan in plans for planned in plan.runs], root)
    ours = {(cell.row, cell.column): cell.ours for cell in cells(recipe, plans, done)}
    return root, ours


def run_of(root: Path, name: str) -> Path:
    return next(root.glob(f"{name}-*"))


def test_runs_that_are_compared_with_come_first(recipe: Recipe) -> None:
    plans = plan_reproduction(recipe, Selection(rows=["Margin"], columns=["FFD"]))
    names = [planned.row for planned in plans[0].runs]
    assert names == ["Central FFD", "FedAvg FFD", "Margin FFD"]


def test_every_measure_is_there(found: tuple[Path, dict[tuple[str, str], float]]) -> None:
    root, ours = found
    assert len(list(root.iterdir())) == 3
    assert all(math.isfinite(value) for value in ours.values()), ours
    assert ours["Margin", "AMM, round 1"] != ours["Margin", "AMM, round 2"]
    assert ours["Margin", "MMD, round 2"] > 0


def test_the_last_round_is_that_of_the_checkpoint(found: tuple[Path, dict[tuple[str, str], float]]) -> None:
    root, ours = found
    reopened = experiment.reopen(RunDir.open(run_of(root, "margin")))
    assert ours["Margin", "AMM, round 2"] == pytest.approx(aggregate_mean_margin(reopened), rel=1e-6)
    reopened.federation.engine.close()


def test_ffd_is_made_of_both_distances(found: tuple[Path, dict[tuple[str, str], float]]) -> None:
    """100 · (B − A) / B of the distances at the last round, which stand beside the runs."""
    root, ours = found
    kept = [
        json.loads((run_of(root, name) / "measures.json").read_text())["2"] for name in ("margin", "fedavg")
    ]
    a, b = (next(v for name, v in one.items() if name.startswith("mmd ")) for one in kept)
    assert ours["Margin", "FFD"] == pytest.approx(100 * (b - a) / b)


def test_a_round_that_kept_nobody_has_no_mmd(
    found: tuple[Path, dict[tuple[str, str], float]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a run of an earlier version: who took part is not drawn again."""
    root, ours = found
    old = tmp_path / "old"
    shutil.copytree(run_of(root, "margin"), old)
    central = run_of(root, "central")
    known = measured(old, 2, "mmd", central, None)
    assert known == ours["Margin", "MMD, round 2"]
    erase_whole(old, "measures.json")
    assert measured(old, 2, "mmd", central, None) == pytest.approx(known)
    erase_whole(old, "measures.json")
    forget_checksums(old)
    lines = [json.loads(line) for line in (old / "metrics.jsonl").read_text().splitlines()]
    texts = [json.dumps({k: v for k, v in line.items() if k != "participants"}) + "\n" for line in lines]
    (old / "metrics.jsonl").write_text("".join(texts))
    assert math.isnan(measured(old, 2, "mmd", central, None))
    assert "round 2 does not tell who took part" in caplog.text


def test_the_figure_has_a_panel_for_each_measure(
    recipe: Recipe, found: tuple[Path, dict[tuple[str, str], float]], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    plans = plan_reproduction(recipe, Selection(rows=["Margin"]))
    done = carry_out([planned for plan in plans for planned in plan.runs], found[0], budget=0)
    path = draw_recipe(recipe, cells(recipe, plans, done), tmp_path / "features.svg")
    assert path.read_text().count("axes_") >= 2


def test_a_reference_must_be_a_row(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(RECIPE.replace('reference = "Central"', 'reference = "Centre"'))
    with pytest.raises(ConfigError, match="reference: unknown row 'Centre'"):
        read(path)
