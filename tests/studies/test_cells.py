"""Our numbers beside printed ones: values, spreads, verdicts and claims, from made-up runs."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from fake_runs import write_run

from protofed.core.errors import ConfigError
from protofed.studies import model_measures
from protofed.studies.cells import Cell, cells, judge
from protofed.studies.claims import claims
from protofed.studies.recipe import Recipe, read
from protofed.studies.reproduce import CellPlan, Selection, plan_reproduction
from protofed.studies.reproduction_table import compact, listing, markdown, rounds_table
from protofed.studies.runner import REFUSED, Done

RECIPE = """
rounds = 2
clients = 2
models = "mlp"

[about]
title = "A toy"
paper = "Somebody, 2020"
seeds = 2
tolerance = 2.0
{about}

[[about.rows]]
name = "A"
method = "fedproto"

[[about.rows]]
name = "B"
method = "local"

[[about.columns]]
name = "x"
{column}

[[about.orders]]
above = "A"
below = "B"
{order}

[published.mean]
A = [50.0]
B = [49.0]

[published.std]
A = [1.5]
B = [nan]
"""


def recipe_of(folder: Path, about: str = 'spread = "clients"', column: str = "", order: str = "") -> Recipe:
    path = folder / "toy.toml"
    folder.mkdir(exist_ok=True)
    path.write_text(RECIPE.format(about=about, column=column, order=order))
    return read(path)


def run_all(
    folder: Path, plans: Sequence[CellPlan], accuracies: dict[str, Sequence[Sequence[float]]], rounds: int = 2
) -> dict[str, Done]:
    """Write every planned run: `accuracies[row][seed]` are the clients in the last round, 0 before."""
    done = {}
    for plan in plans:
        mode = "gp_local" if plan.row.name == "A" else "clf"
        for of_seed, last in zip(plan.by_seed, accuracies[plan.row.name], strict=True):
            for planned in of_seed:
                acc = {mode: [*([[0.0] * len(last)] * (rounds - 1)), last]}
                done[planned.key] = write_run(folder / planned.folder, planned, acc)
    return done


def cells_of(folder: Path, recipe: Recipe, accuracies: dict, **choice) -> list[Cell]:
    plans = plan_reproduction(recipe, Selection(**choice))
    return cells(recipe, plans, run_all(folder, plans, accuracies))


def test_agrees_and_better(tmp_path: Path) -> None:
    """A: seeds 50 ± 2 and 53 ± 1 over clients: 51.5 ± 1.5, which is 1.5 above 50. B: 60 and 62: 61."""
    a, b = cells_of(tmp_path, recipe_of(tmp_path), {"A": [[48, 52], [52, 54]], "B": [[60, 60], [62, 62]]})
    assert (a.ours, a.spread, a.difference, a.verdict) == (51.5, 1.5, 1.5, "agrees")
    assert (b.ours, b.difference, b.verdict, b.seeds, b.rounds) == (61.0, 12.0, "better", 2, 2)
    assert b.seconds == 2 * (1 + 2 + 2 * 0.5)


def test_spread_over_seeds(tmp_path: Path) -> None:
    """Means 40 and 43 of two seeds: √4.5."""
    a, _ = cells_of(
        tmp_path, recipe_of(tmp_path, 'spread = "seeds"'), {"A": [[40, 40], [43, 43]], "B": [[1, 1], [1, 1]]}
    )
    assert a.spread == pytest.approx(math.sqrt(4.5))
    assert a.verdict == "worse"


def test_average_and_spread_over_a_setting(tmp_path: Path) -> None:
    """Three runs a seed of 40, 50 and 60: mean 50, sample deviation 10, for both seeds."""
    recipe = recipe_of(tmp_path, 'spread = "over"\nover = { stragglers = [0.0, 0.5, 0.8] }')
    plans = plan_reproduction(recipe, Selection(rows=["A"]))
    done = {}
    for of_seed in plans[0].by_seed:
        for planned, value in zip(of_seed, (40.0, 50.0, 60.0), strict=True):
            done[planned.key] = write_run(tmp_path / planned.folder, planned, {"gp_local": [[value]] * 2})
    (cell,) = cells(recipe, plans, done)
    assert (cell.ours, cell.spread, cell.verdict) == (50.0, 10.0, "agrees")
    del done[plans[0].by_seed[1][2].key]
    (cell,) = cells(recipe, plans, done)
    assert (cell.verdict, cell.why) == ("not comparable", "not all runs of the average started so far")


@pytest.mark.parametrize(
    ("about", "column", "value"),
    [
        ('measure = "last"', "", 30.0),
        ('measure = "best"', "", 50.0),
        ('measure = "smoothed"', "", 30.0),  # the last tenth of three rounds is one round
        ('measure = "last"', "client = 1", 40.0),
        ('measure = "best"', "client = 1", 70.0),
        ('measure = "last"', 'measure = "train_loss"', 1 / 3),
        ('measure = "last"', 'measure = "test_loss"', 2 / 3),
    ],
)
def test_what_is_measured(tmp_path: Path, about: str, column: str, value: float) -> None:
    """Rounds with clients (10, 10), (30, 70), (20, 40): means 10, 50, 30; losses 1/r and 2/r."""
    recipe = recipe_of(tmp_path, about, column)
    plans = plan_reproduction(recipe, Selection(rows=["A"], seeds=1, settings={"rounds": 3}))
    (planned,) = plans[0].runs
    rounds = [[10.0, 10.0], [30.0, 70.0], [20.0, 40.0]]
    done = {planned.key: write_run(tmp_path / "run", planned, {"gp_local": rounds})}
    assert cells(recipe, plans, done)[0].ours == pytest.approx(value)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("round = 2", 50.0),
        ("round = 3", 30.0),
        ("round = 4", math.nan),  # not done yet
        ("round = 1\nclient = 1", 10.0),
        ('round = 2\nmeasure = "train_loss"', 1 / 2),
        ('round = 2\nmeasure = "amm"', math.nan),  # nobody looked at that time
    ],
)
def test_as_of_a_round(tmp_path: Path, column: str, value: float) -> None:
    """Rounds with clients (10, 10), (30, 70), (20, 40): means 10, 50, 30."""
    recipe = recipe_of(tmp_path, "", column)
    plans = plan_reproduction(recipe, Selection(rows=["A"], seeds=1, settings={"rounds": 3}))
    (planned,) = plans[0].runs
    rounds = [[10.0, 10.0], [30.0, 70.0], [20.0, 40.0]]
    done = {planned.key: write_run(tmp_path / "run", planned, {"gp_local": rounds})}
    assert cells(recipe, plans, done)[0].ours == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(("measure", "value"), [("train_loss", (1 / 9 + 1 / 10) / 2), ("last_loss", 1 / 10)])
def test_losses_of_one_round_and_of_a_tenth(tmp_path: Path, measure: str, value: float) -> None:
    """20 rounds planned, a tenth is two; as of round 10, also while the run is still on its way."""
    recipe = recipe_of(tmp_path, "", f'round = 10\nmeasure = "{measure}"')
    plans = plan_reproduction(recipe, Selection(rows=["A"], seeds=1, settings={"rounds": 20}))
    (planned,) = plans[0].runs
    for done_rounds in (12, 20):
        acc = {"gp_local": [[50.0, 50.0]] * done_rounds}
        done = {planned.key: write_run(tmp_path / f"run{done_rounds}", planned, acc)}
        assert cells(recipe, plans, done)[0].ours == pytest.approx(value)


def test_a_column_over_rounds_is_one_for_each(tmp_path: Path) -> None:
    path = tmp_path / "curve.toml"
    text = RECIPE.format(about="", column="rounds = [1, 2]", order="")
    path.write_text(text[: text.index("[published.mean]")])
    recipe = read(path)
    assert [(c.name, c.round, c.x) for c in recipe.columns] == [
        ("x, round 1", 1, 1.0),
        ("x, round 2", 2, 2.0),
    ]
    keys = {planned.key for plan in plan_reproduction(recipe, Selection(seeds=1)) for planned in plan.runs}
    assert len(keys) == 2  # one run a row


def test_many_columns_stand_one_below_the_other(tmp_path: Path) -> None:
    path = tmp_path / "curve.toml"
    text = RECIPE.format(about="", column=f"rounds = {list(range(1, 14))}", order="")
    path.write_text(text[: text.index("[published.mean]")])
    recipe = read(path)
    table = compact(recipe, cells(recipe, plan_reproduction(recipe, Selection()), {}))
    assert list(table.headings) == ["", "A", "B"]
    assert [row[0] for row in table.rows][:2] == ["x, round 1", "x, round 2"]


def test_a_distance_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipe_of(tmp_path, "", 'measure = "proto_distance"')
    plans = plan_reproduction(recipe, Selection(rows=["A"], seeds=1))
    done = run_all(tmp_path, plans, {"A": [[50, 50]]})
    calls = []

    class Engine:
        def close(self) -> None:
            calls.append("closed")

    class Reopened:
        class federation:
            engine = Engine()
            round = 2

    monkeypatch.setattr(model_measures.experiments, "reopen", lambda directory: Reopened())
    monkeypatch.setitem(model_measures.ALONE, "proto_distance", lambda experiment: 0.25)
    assert [cells(recipe, plans, done)[0].ours for _ in range(2)] == [0.25, 0.25]
    assert calls == ["closed"]


@pytest.mark.parametrize(
    ("about", "column", "settings", "why"),
    [
        ('stand_in = "other data"', "", {}, "other data"),
        ("", 'stand_in = "smaller images"', {}, "smaller images"),
        ("", "", {"rounds": 1}, "1 of 2 rounds"),
        ("", "", {"rounds": 3}, "3 instead of 2 rounds"),
        ("", "", {"options": {"lam": 0.5}}, "lam changed"),
        ("", "", {"options": {"lam": "0.5"}}, "lam changed"),
        ("", "", {"lr": 0.5, "clients": 3}, "clients changed; lr changed"),
        ('measure = "best"', "", {"eval_every": 2}, "eval_every changed"),
    ],
)
def test_not_comparable(tmp_path: Path, about: str, column: str, settings: dict, why: str) -> None:
    recipe = recipe_of(tmp_path, about, column)
    plans = plan_reproduction(recipe, Selection(rows=["A"], settings=settings))
    done = run_all(tmp_path, plans, {"A": [[50, 50], [50, 50]]}, rounds=settings.get("rounds", 2))
    (cell,) = cells(recipe, plans, done)
    assert (cell.verdict, cell.why, cell.difference) == ("not comparable", why, 0.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"eval_every": 2},
        {"engine": "sequential"},
        {"seed": 5},
        {"rounds": 2},
        {"options": {"lam": "0.10"}},  # the recipe's value in another spelling
    ],
)
def test_still_comparable(tmp_path: Path, settings: dict) -> None:
    recipe = recipe_of(tmp_path)
    plans = plan_reproduction(recipe, Selection(rows=["A"], settings=settings))
    done = run_all(tmp_path, plans, {"A": [[50, 50], [50, 50]]})
    assert cells(recipe, plans, done)[0].verdict == "agrees"


def test_a_run_on_its_way_is_not_comparable(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    plans = plan_reproduction(recipe, Selection(rows=["A"]))
    done = run_all(tmp_path, plans, {"A": [[50, 50], [50, 50]]}, rounds=1)
    (cell,) = cells(recipe, plans, done)
    assert (cell.verdict, cell.why) == ("not comparable", "only 1 of 2 rounds done so far")


def test_a_recipe_that_measures_the_start_tests_there(tmp_path: Path) -> None:
    """Its runs are others than those without that test, which do not have the number."""
    (plain,) = plan_reproduction(recipe_of(tmp_path), Selection(rows=["A"], seeds=1))
    recipe = recipe_of(tmp_path, column='measure = "start"')
    (plan,) = plan_reproduction(recipe, Selection(rows=["A"], seeds=1))
    assert plan.runs[0].config.system.eval_start
    assert not plain.runs[0].config.system.eval_start
    assert plan.runs[0].key != plain.runs[0].key


def test_the_accuracy_before_training(tmp_path: Path) -> None:
    """By classifier: 10 and 14 before the first round, 50 after it."""
    recipe = recipe_of(tmp_path, column='measure = "start"')
    plans = plan_reproduction(recipe, Selection(rows=["A"], seeds=1))
    (planned,) = plans[0].runs
    acc = {"gp_local": [[50.0, 50.0]] * 2, "clf": [[60.0, 60.0]] * 2}
    run = write_run(tmp_path / "run", planned, acc, start={"clf": [10.0, 14.0]})
    assert cells(recipe, plans, {planned.key: run})[0].ours == 12.0


def test_the_released_spread_is_that_of_its_rows_and_said(tmp_path: Path) -> None:
    """Clients at 80 and 40 (10 samples each), with a classifier that is always right: 20; with counters
    that run on through both (10 + 8) / 20 = 90, then (18 + 10 + 4) / 40 = 80: 5 around 85."""
    path = tmp_path / "toy.toml"
    text = RECIPE.format(about='spread = "clients"', column="", order="")
    path.write_text(text.replace('method = "fedproto"', 'method = "fedproto"\nreleased_spread = true'))
    for recipe, spread, said in ((recipe_of(tmp_path / "plain"), 20.0, False), (read(path), 5.0, True)):
        (plan,) = plan_reproduction(recipe, Selection(rows=["A"], seeds=1))
        (planned,) = plan.runs
        acc = {"gp_local": [[80.0, 40.0]] * 2, "clf": [[100.0, 100.0]] * 2}
        done = {planned.key: write_run(tmp_path / f"run {spread}", planned, acc)}
        (cell,) = found = cells(recipe, [plan], done)
        assert cell.spread == pytest.approx(spread)
        page = markdown(recipe, found, [], "reproduce", "today")
        assert ("± is over clients. That of A is as their released evaluation prints it." in page) is said


def test_refused_and_missing_runs(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    plans = plan_reproduction(recipe, Selection())
    refused = {p.key: Done(p, tmp_path, REFUSED, "needs one architecture") for p in plans[0].runs}
    a, b = cells(recipe, plans, refused)
    assert (a.verdict, a.why) == ("not run", "needs one architecture")
    assert (b.verdict, b.why) == ("not run", "")
    assert math.isnan(a.ours)
    assert a.paper == 50.0


def test_verdicts_by_hand() -> None:
    assert judge(52.0, [50.0], 2.0, "higher") == "agrees"
    assert judge(52.1, [50.0], 2.0, "higher") == "better"
    assert judge(47.9, [50.0], 2.0, "higher") == "worse"
    assert judge(0.5, [0.3], 0.05, "lower") == "worse"
    assert judge(0.1, [0.3], 0.05, "lower") == "better"
    assert judge(436.8, [430.0], 0.5, "neither") == "differs"
    assert judge(95.0, [91.4, 95.04], 2.0, "higher") == "agrees"


A_BEHIND = {"A": [[49, 50, 51], [52, 53, 54]], "B": [[60, 62, 64], [66, 68, 70]]}


def test_a_setting_that_replaces_what_is_averaged_over_is_a_change(tmp_path: Path) -> None:
    """The first of the three values is the one given: only the others change."""
    recipe = recipe_of(tmp_path, 'spread = "over"\nover = { stragglers = [0.0, 0.5, 0.8] }')
    plans = plan_reproduction(recipe, Selection(rows=["A"], settings={"stragglers": 0.0}))
    assert plans[0].why == ("stragglers changed",)


def test_a_recipe_has_its_own_seed(tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text("seed = 7\n" + RECIPE.format(about="", column="", order=""))
    plans = plan_reproduction(read(tmp_path / "toy.toml"), Selection())
    assert [planned.seed for runs in plans[0].by_seed for planned in runs] == [7, 8]


def test_a_loss_that_not_every_round_has(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, "", 'measure = "test_loss"')
    plans = plan_reproduction(recipe, Selection(rows=["A"], seeds=1))
    done = run_all(tmp_path, plans, {"A": [[50, 50]]})
    path = next(iter(done.values())).path / "metrics.jsonl"
    first, last = (json.loads(line) for line in path.read_text().splitlines())
    del first["test_loss"]
    path.write_text(json.dumps(first) + "\n" + json.dumps(last) + "\n")
    assert cells(recipe, plans, done)[0].ours == last["test_loss"]


def test_options_are_for_rows_of_one_method(tmp_path: Path) -> None:
    settings = {"options": {"lam": 0.5}}
    with pytest.raises(Exception, match="several methods are compared"):
        plan_reproduction(recipe_of(tmp_path), Selection(settings=settings))


def test_rows_and_columns_are_chosen(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    assert [p.row.name for p in plan_reproduction(recipe, Selection(rows=["b"]))] == ["B"]
    assert [p.row.name for p in plan_reproduction(recipe, Selection(rows=["fedproto"]))] == ["A"]
    with pytest.raises(Exception, match="unknown method 'C'"):
        plan_reproduction(recipe, Selection(rows=["C"]))
    with pytest.raises(Exception, match="unknown column 'y'"):
        plan_reproduction(recipe, Selection(columns=["y"]))


GOLDEN = """\
# toy: A toy
Somebody, 2020

`protofed reproduce toy`, 2030-01-02. Cells: 1 agrees, 1 better. ± is over clients.

### toy: A toy

|  | x |
| --- | ---: |
| A | 51.50 (50.00) +1.50 = |
| B | 61.00 (49.00) +12.00 ↑ |

ours (paper) difference; = agrees, ↑ better, ↓ worse, ≠ differs, ≈ not comparable

prediction, local steps of a client in a round: A (gp_local, 3.0), B (clf, 3.0)

### All cells

| method | column | ours | paper | difference | seeds | rounds | local steps | verdict |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| A | x | 51.50 ± 1.50 | 50.00 ± 1.50 | +1.50 | 2 | 2 | 3.0 | agrees |
| B | x | 61.00 ± 0.00 | 49.00 | +12.00 | 2 | 2 | 3.0 | better |

### Claims

| claim | column | by | here |
| --- | --- | ---: | ---: |
| A > B | x | -9.50 | cannot tell: gp_local against clf; 4 pairs of clients of 2 seeds too few for a test |
"""


def test_the_report_is_as_agreed(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    found = cells_of(tmp_path, recipe, {"A": [[48, 52], [52, 54]], "B": [[60, 60], [62, 62]]})
    text = markdown(recipe, found, claims(recipe, found), "protofed reproduce toy", "2030-01-02")
    assert text == GOLDEN
    assert len(listing(recipe, found).rows) == 2
    assert compact(recipe, found).rows[0][1] == "51.50 (50.00) +1.50 ="


def test_rounds_beside_the_printed_ones(tmp_path: Path) -> None:
    """Moving averages over five of ten tests are within half a point of their maximum from round 8 on."""
    recipe = recipe_of(tmp_path)
    recipe = dataclasses.replace(recipe, published={**recipe.published, "rounds": {"A": 100, "B": 150}})
    plans = plan_reproduction(recipe, Selection(rows=["A"], seeds=1, settings={"rounds": 10}))
    (planned,) = plans[0].runs
    rounds = [[value, value] for value in (0.0, 10, 80, 90, 90, 90, 90, 90, 90, 90)]
    done = {planned.key: write_run(tmp_path / "run", planned, {"gp_local": rounds})}
    (table,) = rounds_table(recipe, cells(recipe, plans, done))
    assert [list(row) for row in table.rows] == [["A", "100", "10", "8"]]
    assert rounds_table(recipe_of(tmp_path), cells(recipe, plans, done)) == []
    by_column = {"rounds": {"A": [200, 400]}, "mean": {"A": [50.0, 50.0]}}
    (x,) = recipe.columns
    columns = (x, dataclasses.replace(x, name="y"))
    recipe = dataclasses.replace(recipe, published=by_column, columns=columns)
    found = [dataclasses.replace(cells(recipe, plans, done)[0], column=name) for name in ("x", "y")]
    assert [rounds_table(recipe, some)[0].rows[0][1] for some in (found[1:], found)] == ["400", "200–400"]


@pytest.mark.parametrize(
    ("target", "value", "verdict"), [(30, 2.0, "better"), (71, math.nan, "not measured")]
)
def test_rounds_to_a_target(tmp_path: Path, target: float, value: float, verdict: str) -> None:
    """Means 10, 50, 30: 30 % is reached in round 2, fewer than the printed 50; 71 % never."""
    recipe = recipe_of(tmp_path, "", f'measure = "rounds_to"\ntarget = {target}')
    plans = plan_reproduction(recipe, Selection(rows=["A"], seeds=1))
    (planned,) = plans[0].runs
    rounds = [[10.0, 10.0], [30.0, 70.0]]
    done = {planned.key: write_run(tmp_path / "run", planned, {"gp_local": rounds})}
    (cell,) = cells(recipe, plans, done)
    assert cell.ours == pytest.approx(value, nan_ok=True)
    assert cell.verdict == verdict
    with pytest.raises(ConfigError, match="rounds_to needs target"):
        recipe_of(tmp_path, "", 'measure = "rounds_to"')
