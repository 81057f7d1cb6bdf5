"""docs/results/index.md is what the generator makes of the outcomes, and counts them rightly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from generator.published import RESULTS, counted, index, outcomes

from protofed.runs.files import finite
from protofed.studies.claims import as_claims, claims
from protofed.studies.kept_cells import all_kept
from protofed.studies.recipe import load_recipe


def cell(row: str, column: str, verdict: str = "agrees", **more: Any) -> dict[str, Any]:
    return {"row": row, "column": column, "verdict": verdict, "why": "", "seeds": 1, "rounds": 100, **more}


def claim(verdict: str) -> dict[str, str]:
    return {"text": "FedProto > FedAvg", "column": "n=3, stdev 2", "verdict": verdict}


ONE = {
    "recipe": "fp-t2",
    "cells": [cell("FedAvg", "n=3, stdev 2"), cell("Local", "n=3, stdev 3", "not comparable", why="short")],
    "claims": [claim("cannot tell")],
}
TWO = {
    "recipe": "fp-t2",
    "cells": [cell("FedAvg", "n=3, stdev 2", seeds=3), cell("FedProto", "n=3, stdev 2", "better", seeds=3)],
    "claims": [claim("holds")],
}


def test_the_page_is_as_generated() -> None:
    """If not: python docs/generator/published.py"""
    assert (RESULTS / "index.md").read_text() == index()


@pytest.mark.parametrize("page", [one["page"] for some in outcomes(RESULTS).values() for one in some])
def test_the_claims_of_a_page_are_those_of_its_recipe(page: str) -> None:
    """If not: its command with --budget 0s and --publish judges them anew, without a run."""
    path = (RESULTS / page).with_suffix(".json")
    outcome = json.loads(path.read_text())
    recipe = load_recipe(outcome["recipe"])
    assert outcome["claims"] == finite(as_claims(claims(recipe, all_kept(recipe, path))))


def test_outcomes_of_one_recipe_are_added_up(tmp_path: Path) -> None:
    """8 printed rows × 6 columns. Three cells have a number, of one or three seeds, two of them compare, one
    of these agrees; the claim is that of the outcome with three seeds."""
    for name, outcome in {"a": TWO, "b": ONE, "speed": {"rounds": 3}}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(outcome))
    found = outcomes(tmp_path)
    assert {recipe: [one["page"] for one in some] for recipe, some in found.items()} == {
        "fp-t2": ["a.md", "b.md"]
    }
    assert counted("fp-t2", found["fp-t2"]) == (48, 3, 0, (3, 3, 1), 2, 1, {"holds": 1})
    assert counted("fp-t2", found["fp-t2"], columns=3)[:5] == (24, 2, 0, (3, 3), 2)
    assert counted("fp-t2", found["fp-t2"], without=["Local", "FedProto"]) == (36, 1, 0, (3,), 1, 1, {})
    lines = [line for line in index(tmp_path).splitlines() if line.startswith("| Table 2 | MNIST ")]
    assert lines == [  # of the earlier version, too, without Local
        "| Table 2 | MNIST | [a](a.md), [b](b.md) | 3 of 48 | 1–3 | 1 of 2 | 1 | 0 | 0 |",
        "| Table 2 | MNIST | [a](a.md), [b](b.md) | 2 of 36 | 3 | 1 of 2 | 1 | 0 | 0 |",
    ]


@pytest.mark.parametrize(
    ("recipe", "cells"), [("fp-t2", 48), ("tgp-t10", 14), ("plcc-t3", 40), ("tgp-t9", 16), ("fp-f3", 18)]
)
def test_cells_are_those_that_the_paper_prints(recipe: str, cells: int) -> None:
    """Rows of ours, columns of stand-in data and shortened ones stand beside them; a curve has points."""
    whole = load_recipe(recipe)
    every = [cell(row.name, column.name) for row in whole.rows for column in whole.columns]
    found = counted(recipe, [{"cells": every, "claims": []}])
    assert (found.cells, found.run, found.run + found.beside) == (cells, cells, len(every))


def test_what_was_not_run_says_so(tmp_path: Path) -> None:
    text = index(tmp_path)
    recipe = "[tgp-t3](../reference/recipes.md#tgp-t3)"
    assert f"| Table 3 | local epochs | {recipe} | not run (0 of 21) | – | – | – | – | – |" in text
