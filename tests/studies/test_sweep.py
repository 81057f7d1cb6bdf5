"""Axes, grids and what they change; the search; plots."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_runs import planned, write_run

from protofed.config import resolve
from protofed.core.errors import ConfigError, RunError
from protofed.studies.cells import cells
from protofed.studies.compare import compare
from protofed.studies.comparison_table import shown
from protofed.studies.recipe import load_recipe
from protofed.studies.reproduce import Selection, plan_reproduction
from protofed.studies.search import search
from protofed.studies.study_charts import draw_recipe, draw_sweep
from protofed.studies.sweep import (
    SweepAxis,
    corners,
    grid,
    label,
    plan_point,
    point_layer,
    read_axis,
    set_in_form,
)


def test_axes_as_written():
    assert read_axis("lam=0, 0.1,1").values == ("0", "0.1", "1")
    assert read_axis("partition=iid;nway:n=3,k=5").values == ("iid", "nway:n=3,k=5")
    assert read_axis("batch-size=1,1,2") == SweepAxis("batch_size", ("1", "2"))
    assert read_axis("lam=0.01..10:log") == SweepAxis("lam", (), 0.01, 10.0, log=True)
    assert read_axis("epochs=1..5") == SweepAxis("epochs", (), 1.0, 5.0, whole=True)


@pytest.mark.parametrize(
    "text", ["lam", "lam=", "=1", "lam=a..b", "lam=2..1", "lam=0..1:log", "lam=0..1:even"]
)
def test_wrong_axes(text):
    with pytest.raises(ConfigError, match="--over"):
        read_axis(text)


def test_a_grid_has_all_combinations():
    points = grid([read_axis("lam=0,1"), read_axis("lr=0.1,0.2")])
    assert [label(p) for p in points] == ["lam=0, lr=0.1", "lam=0, lr=0.2", "lam=1, lr=0.1", "lam=1, lr=0.2"]
    with pytest.raises(ConfigError, match="--optuna"):
        grid([read_axis("lam=0..1")])


def test_options_settings_and_written_forms():
    base = resolve({"method": "fedproto", "partition": "nway:n=3,k=10"})
    layer = point_layer(base, {"lam": "2", "lr": "0.3", "partition.k": "5", "partition.stdev": "1"})
    assert layer == {"options": {"lam": "2"}, "lr": "0.3", "partition": "nway:n=3,k=5,stdev=1"}
    with pytest.raises(ConfigError, match="unknown option or setting 'lamb'"):
        point_layer(base, {"lamb": "2"})
    with pytest.raises(ConfigError, match="unknown option or setting 'seed'"):
        point_layer(base, {"seed": "2"})


def test_an_option_inside_a_written_form():
    assert set_in_form("iid", "k", "3") == "iid:k=3"
    assert set_in_form("nway:n=3,k=100", "k", "100") == "nway:n=3,k=100"
    with pytest.raises(ConfigError, match="several models"):
        set_in_form("mlp|small_cnn", "dim", "3")


def test_runs_of_a_point():
    runs = plan_point("fedproto", {"rounds": "2"}, {"lam": "0.5"}, 2)
    assert [(p.row, p.seed, p.config.make_method().lam) for p in runs] == [
        ("lam=0.5", 0, 0.5),
        ("lam=0.5", 1, 0.5),
    ]
    assert runs[0].config.rounds.rounds == 2


# search


@pytest.fixture
def _optuna() -> None:
    pytest.importorskip("optuna", reason="the extra `sweep` is not installed")


def closeness(point: dict[str, str]) -> float:
    """Best at λ = 1, with agg=b."""
    return -abs(math.log10(float(point["lam"]))) + (point.get("agg") == "b")


@pytest.mark.usefixtures("_optuna")
def test_the_search_returns_the_best_of_its_trials():
    tried = []

    def objective(point):
        tried.append(point)
        return closeness(point)

    axes = [read_axis("lam=0.01..10:log"), read_axis("epochs=1..9"), read_axis("agg=a,b")]
    best = search(axes, 30, 0, objective)
    assert len(tried) == 30
    assert best == max(tried, key=closeness)
    assert best["agg"] == "b"
    assert 0.5 < float(best["lam"]) < 2
    assert all(0.01 <= float(point["lam"]) <= 10 for point in tried)
    assert {int(point["epochs"]) for point in tried} <= set(range(1, 10))


@pytest.mark.usefixtures("_optuna")
def test_a_search_that_is_repeated_tries_the_same():
    """So an interrupted search finds its finished runs again."""
    tried: list[list[dict[str, str]]] = [[], []]
    for each in tried:
        search([read_axis("lam=0.01..10:log")], 12, 3, lambda p, each=each: each.append(p) or closeness(p))
    assert tried[0] == tried[1]


@pytest.mark.usefixtures("_optuna")
def test_combinations_that_cannot_be_run_are_passed_over():
    """Large values have no accuracy; the best is the best of the others."""
    epochs = [read_axis("epochs=1..9")]
    best = search(epochs, 20, 0, lambda p: math.nan if int(p["epochs"]) > 4 else float(p["epochs"]))
    assert best == {"epochs": "4"}
    with pytest.raises(ConfigError, match="no combination"):
        search(epochs, 3, 0, lambda p: math.nan)


@pytest.mark.usefixtures("_optuna")
def test_an_error_in_a_trial_is_passed_on_without_a_report(capfd: pytest.CaptureFixture[str]):
    def objective(point):
        raise RunError("client 3: NaN")

    with pytest.raises(RunError, match="client 3"):
        search([read_axis("epochs=1..9")], 3, 0, objective)
    assert capfd.readouterr().err == ""


def test_a_search_needs_a_trial():
    with pytest.raises(ConfigError, match="at least one trial, got 0"):
        search([read_axis("epochs=1..9")], 0, 0, lambda p: 0.0)


def test_combinations_that_raise_are_passed_over_too():
    pytest.importorskip("optuna", reason="the extra `sweep` is not installed")

    def objective(point):
        if int(point["n"]) > 10:
            raise ConfigError(f"n={point['n']} but the data has 10 classes")
        return float(point["n"])

    assert search([read_axis("n=9..14")], 20, 0, objective) == {"n": "10"}
    with pytest.raises(ConfigError, match=r"no combination could be run: n=1. but the data has 10 classes"):
        search([read_axis("n=11..14")], 2, 0, objective)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("data=npz:../a.npz;npz:../b.npz", ("npz:../a.npz", "npz:../b.npz")),
        ("data=npz:a/../b.npz", ("npz:a/../b.npz",)),
        ("lam=0.1..2", ()),
        ("lam=.1..2", ()),
        ("lam=.1...5", ()),
        ("lam=-1..1e3:log", None),
    ],
)
def test_two_dots_are_a_range_only_between_numbers(text: str, values: tuple[str, ...] | None):
    if values is None:
        with pytest.raises(ConfigError, match="LOW above 0"):
            read_axis(text)
    else:
        assert read_axis(text).values == values


def test_the_corners_of_a_search_hold_every_value_and_end():
    axes = [read_axis("lam=0.01..10:log"), read_axis("agg=a,b")]
    assert corners(axes) == [
        {"lam": "0.01", "agg": "a"},
        {"lam": "10", "agg": "a"},
        {"lam": "0.01", "agg": "a"},
        {"lam": "0.01", "agg": "b"},
    ]


def test_without_optuna_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"protofed\[sweep\]"):
        search([read_axis("epochs=1..9")], 1, 0, lambda p: 0.0)


# plots


def lines(folder: Path, rows: dict[str, float]) -> list[Any]:
    done = [
        write_run(
            folder / row.replace(",", ""), planned(row, rounds=1), {"gp_local": [[value]], "clf": [[0.0]]}
        )
        for row, value in rows.items()
    ]
    return compare(done).lines


def drawn(path: Path) -> bool:
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 5000


def test_curves(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = lines(tmp_path, {"lam=0.01": 50.0, "lam=1": 60.0})
    points = [({"lam": line.method.split("=")[1]}, line) for line in found]
    assert drawn(draw_sweep(points, tmp_path / "new" / "curve.png"))
    named = [({"partition": line.method}, line) for line in found]
    assert drawn(draw_sweep(named, tmp_path / "named.png"))


@pytest.mark.parametrize("modes", ["all", "clf"])
@pytest.mark.parametrize("k", ["2", "1"])  # points of a search; a whole grid
def test_a_map_of_two_names(tmp_path: Path, k: str, modes: str) -> None:
    pytest.importorskip("matplotlib")
    found = lines(tmp_path, {"lam=0, k=1": 50.0, f"lam=1, k={k}": 60.0})
    found = [line for line in found if shown(line, modes)]
    points = [(dict(part.split("=") for part in line.method.split(", ")), line) for line in found]
    assert drawn(draw_sweep(points, tmp_path / "map.png"))


def test_plots_that_cannot_be(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (line, _) = lines(tmp_path, {"one": 1.0})
    with pytest.raises(ConfigError, match="got 3"):
        draw_sweep([({"a": "1", "b": "1", "c": "1"}, line)], tmp_path / "a.png")
    with pytest.raises(ConfigError, match="plot"):
        draw_sweep([({"a": "1"}, line)], tmp_path / "a.xyz")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write"):
        draw_sweep([({"a": "1"}, line)], tmp_path / "file" / "a.png")


def test_a_figure_of_a_recipe(tmp_path: Path) -> None:
    """FedProto's Figure 4 has two panels: accuracy and distance."""
    pytest.importorskip("matplotlib")
    recipe = load_recipe("fp-f4")
    found = cells(recipe, plan_reproduction(recipe, Selection(seeds=1)), {})
    assert drawn(draw_recipe(recipe, found, tmp_path / "figure.png"))
