"""A page and its outcome: what earlier calls left there, row by row and seed by seed."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from fake_runs import write_run
from test_cells import A_BEHIND, recipe_of, run_all

from protofed.core.errors import ConfigError
from protofed.studies.cells import cells
from protofed.studies.claims import as_claims, claims
from protofed.studies.kept_cells import plan_page
from protofed.studies.published import check_page
from protofed.studies.published import publish as publish_planned
from protofed.studies.recipe import Order, Recipe, load_recipe
from protofed.studies.reproduce import Selection, plan_reproduction
from protofed.studies.reproduction_table import listing
from protofed.studies.runner import Done


def publish(
    path: Path, recipe: Recipe, choice: Selection, done: Mapping[str, Done], command: str
) -> list[Path]:
    return publish_planned(plan_page(recipe, choice, path.with_suffix(".json")), done, command)


def test_a_page_and_its_outcome(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    done = run_all(tmp_path, plan_reproduction(recipe, Selection()), A_BEHIND)
    paths = publish(tmp_path / "toy.md", recipe, Selection(), done, "protofed reproduce toy")
    assert [path.name for path in paths] == ["toy.md", "toy.json"]
    assert paths[0].read_text().startswith("# toy: A toy")
    outcome = json.loads(paths[1].read_text())
    assert (outcome["recipe"], outcome["command"]) == ("toy", "protofed reproduce toy")
    assert [(one["row"], one["ours"], one["verdict"]) for one in outcome["cells"]] == [
        ("A", 51.5, "agrees"),
        ("B", 65.0, "better"),
    ]
    assert outcome["claims"][0]["verdict"] == "does not hold"
    for wrong, message in {"toy.txt": "must end in .md", "none/toy.md": "is not a folder"}.items():
        with pytest.raises(ConfigError, match=message):
            check_page(tmp_path / wrong)


def test_rows_of_two_calls_are_one_page(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A is run by the first call and B by the second: the claim is judged as if one call had run both. With
    other settings neither is the cell that is asked for."""
    recipe, page = recipe_of(tmp_path), tmp_path / "toy.md"
    plans = plan_reproduction(recipe, Selection())
    done = run_all(tmp_path, plans, A_BEHIND)
    whole = cells(recipe, plans, done)
    for row in ("A", "B"):
        keys = {one.key for plan in plans if plan.row.name == row for one in plan.runs}
        some = {key: run for key, run in done.items() if key in keys}
        publish(page, recipe, Selection(rows=[row]), some, f"protofed reproduce toy --methods {row}")
    outcome = json.loads(page.with_suffix(".json").read_text())
    assert [cell["row"] for cell in outcome["cells"]] == ["A", "B"]
    assert outcome["claims"] == json.loads(json.dumps(as_claims(claims(recipe, whole))))
    assert outcome["command"].count("protofed reproduce toy --methods") == 2
    assert listing(recipe, whole).markdown() in page.read_text()
    assert not caplog.records
    publish(page, recipe, Selection(settings={"rounds": 3}), {}, "protofed reproduce toy --rounds 3")
    assert json.loads(page.with_suffix(".json").read_text())["cells"] == []
    assert "2 of its cells are of other settings" in caplog.text
    page.with_suffix(".json").write_text('{"cells": [{"mark": "a"}]}')
    with pytest.raises(ConfigError, match="holds no outcome of a reproduction"):
        publish(page, recipe, Selection(), done, "protofed reproduce toy")


def test_only_the_columns_that_were_chosen_have_numbers(tmp_path: Path) -> None:
    """x and y differ in the number of clients; with --clients both are one run, and y was not asked for."""
    recipe, page = recipe_of(tmp_path), tmp_path / "toy.md"
    (x,) = recipe.columns
    y = dataclasses.replace(x, name="y", settings={"clients": 3})
    printed = {"mean": {"A": [50.0, 60.0], "B": [49.0, 59.0]}}
    recipe = dataclasses.replace(recipe, columns=(x, y), published=printed)
    choice = Selection(columns=["x"], settings={"clients": 2})
    done = run_all(tmp_path, plan_reproduction(recipe, choice), A_BEHIND)
    publish(page, recipe, choice, done, "protofed reproduce toy --columns x --clients 2")
    outcome = json.loads(page.with_suffix(".json").read_text())
    assert [(cell["row"], cell["column"]) for cell in outcome["cells"]] == [("A", "x"), ("B", "x")]
    assert {claim["column"] for claim in outcome["claims"]} == {"x"}
    lines = [line for line in page.read_text().splitlines() if line.startswith("| A | y |")]
    assert lines == ["| A | y | – | 60.00 | – | – | – | – | not run: clients changed |"]


def test_an_option_is_that_of_the_chosen_rows(tmp_path: Path) -> None:
    """B, kept from an earlier call, has no lam; and what no row can take is told before anything is run."""
    recipe, page = recipe_of(tmp_path), tmp_path / "toy.md"
    plans = plan_reproduction(recipe, Selection(rows=["B"]))
    publish(page, recipe, Selection(rows=["B"]), run_all(tmp_path, plans, A_BEHIND), "toy --methods B")
    choice = Selection(rows=["A"], settings={"options": {"lam": 2}})
    done = run_all(tmp_path, plan_reproduction(recipe, choice), A_BEHIND)
    publish(page, recipe, choice, done, "toy --methods A --set lam=2")
    outcome = json.loads(page.with_suffix(".json").read_text())
    assert [(cell["row"], cell["why"]) for cell in outcome["cells"]] == [("A", "lam changed"), ("B", "")]
    with pytest.raises(ConfigError, match="several methods"):
        plan_page(recipe, Selection(settings={"options": {"lam": 2}}), page.with_suffix(".json"))


def test_a_page_beside_it_has_the_same_runs(tmp_path: Path) -> None:
    """FedPLCC's Table V has two rows of its Table II: published there, they are on both pages."""
    settings = {"data": "digit5:size=32"}
    two, five = load_recipe("plcc-t2"), load_recipe("plcc-t5")
    choice = Selection(rows=["FedAvg"], seeds=1, settings=settings)
    (planned,) = plan_reproduction(two, choice)[0].runs
    run = write_run(tmp_path / "run", planned, {"clf": [[60.0, 50.0, 40.0, 30.0, 20.0]] * 50})
    publish(tmp_path / "two.md", two, choice, {planned.key: run}, "protofed reproduce plcc-t2")
    publish(
        tmp_path / "five.md", five, Selection(seeds=1, settings=settings), {}, "protofed reproduce plcc-t5"
    )
    cells = json.loads((tmp_path / "five.json").read_text())["cells"]
    assert [(cell["row"], cell["ours"], cell["paper"]) for cell in cells] == [
        ("contra w/o, corr w/o", 40.0, 60.394)
    ]
    publish(tmp_path / "five.md", five, Selection(seeds=1), {}, "protofed reproduce plcc-t5")  # of 64 pixels
    assert json.loads((tmp_path / "five.json").read_text())["cells"] == []


def test_a_call_that_brings_nothing_judges_anew(tmp_path: Path) -> None:
    """B > A is asked since: it is judged from what is kept, and command and date stay."""
    recipe, page = recipe_of(tmp_path), tmp_path / "toy.md"
    done = run_all(tmp_path, plan_reproduction(recipe, Selection()), A_BEHIND)
    publish(page, recipe, Selection(), done, "protofed reproduce toy")
    outcome = json.loads(page.with_suffix(".json").read_text())
    page.with_suffix(".json").write_text(json.dumps({**outcome, "date": "2020-01-01"}))
    turned = dataclasses.replace(recipe, orders=(Order("B", "A"),))
    turned = dataclasses.replace(turned, published={"mean": {"A": [50.0], "B": [51.0]}})
    for runs in ({}, done):  # on another machine, or where the runs are
        publish(page, turned, Selection(), runs, "protofed reproduce toy --budget 0s")
        found = json.loads(page.with_suffix(".json").read_text())
        assert [(one["text"], one["verdict"]) for one in found["claims"]] == [("B > A", "holds")]
        assert [one["paper"] for one in found["cells"]] == [50.0, 51.0]
    publish(page, recipe, Selection(), {}, "protofed reproduce toy --budget 0s")
    found = json.loads(page.with_suffix(".json").read_text())
    assert (found["command"], found["date"]) == ("protofed reproduce toy", "2020-01-01")
    assert [one["paper"] for one in found["cells"]] == [50.0, 49.0]


def test_a_row_that_is_only_begun_is_in_no_claim(tmp_path: Path) -> None:
    recipe, page = recipe_of(tmp_path), tmp_path / "toy.md"
    plans = plan_reproduction(recipe, Selection(seeds=1))
    accuracies = {"A": [[50] * 6], "B": [[40] * 6]}
    done = run_all(tmp_path, plans[:1], accuracies) | run_all(tmp_path, plans[1:], accuracies, rounds=1)
    publish(page, recipe, Selection(seeds=1), done, "protofed reproduce toy")
    outcome = json.loads(page.with_suffix(".json").read_text())
    assert [one["row"] for one in outcome["cells"]] == ["A"]
    assert outcome["claims"] == []


@pytest.mark.parametrize(
    "about",
    [
        'spread = "clients"',
        'spread = "seeds"',
        'spread = "over"\nover = { stragglers = [0.0, 0.5] }',
    ],
)
def test_seeds_of_two_calls_are_one_cell(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, about: str
) -> None:
    """Seed 0 is run by one call and seed 1 by another, on another machine: the cells, their spreads and the
    claims are those of both seeds by one call; and the same again when seed 0 is published once more."""
    order = '[[about.orders]]\nabove = "A"\nbelow = "B"\nby = "smaller_spread"'
    recipe, page = recipe_of(tmp_path, about, order=order), tmp_path / "toy.md"
    plans = plan_reproduction(recipe, Selection())
    done = run_all(tmp_path, plans, A_BEHIND)
    whole = cells(recipe, plans, done)
    for seed in (0, 1, 0):
        keys = {one.key for plan in plans for one in plan.by_seed[seed]}
        some = {key: run for key, run in done.items() if key in keys}
        choice = Selection(seeds=1, settings={"seed": seed})
        publish(page, recipe, choice, some, f"protofed reproduce toy --seed {seed} --seeds 1")
        assert listing(recipe, whole).markdown() in page.read_text() or seed == 0
    outcome = json.loads(page.with_suffix(".json").read_text())
    assert listing(recipe, whole).markdown() in page.read_text()
    assert outcome["claims"] == json.loads(json.dumps(as_claims(claims(recipe, whole))))
    assert [[part["seeds"] for part in cell["parts"]] for cell in outcome["cells"]] == [[1, 1], [1, 1]]
    assert not caplog.records
    for cell, kept in zip(whole, outcome["cells"], strict=True):
        expected = dataclasses.asdict(cell)
        for name in ("ours", "spread", "seeds", "rounds", "seconds", "verdict", "mode", "converged"):
            assert kept[name] == pytest.approx(expected[name], nan_ok=True) or math.isnan(expected[name])


def test_an_unfinished_seed_waits(tmp_path: Path) -> None:
    """Seed 0 is finished, seed 1 has one of two rounds: the page has seed 0 alone."""
    recipe, page = recipe_of(tmp_path), tmp_path / "toy.md"
    plans = plan_reproduction(recipe, Selection())
    done = run_all(tmp_path, plans, A_BEHIND)
    for plan, mode in zip(plans, ("gp_local", "clf"), strict=True):
        ((planned,),) = plan.by_seed[1:]
        done[planned.key] = write_run(tmp_path / "short" / planned.folder, planned, {mode: [[90.0, 90.0]]})
    publish(page, recipe, Selection(), done, "protofed reproduce toy")
    outcome = json.loads(page.with_suffix(".json").read_text())
    assert [(cell["row"], cell["ours"], cell["seeds"]) for cell in outcome["cells"]] == [
        ("A", 50.0, 1),
        ("B", 62.0, 1),
    ]
