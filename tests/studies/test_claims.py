"""Which orders of rows are claims, and when one holds, does not, or cannot be told."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from fake_runs import write_run
from test_cells import A_BEHIND, RECIPE, cells_of, recipe_of, run_all

from protofed.studies.cells import cells
from protofed.studies.claims import claims
from protofed.studies.likeness import different
from protofed.studies.recipe import Recipe, read
from protofed.studies.reproduce import Selection, plan_reproduction


def test_claims(tmp_path: Path) -> None:
    """Six pairs, all −11 or less: p = 2/64. In the mean 51.5 against 65."""
    recipe = recipe_of(tmp_path)
    (claim,) = claims(recipe, found := cells_of(tmp_path, recipe, A_BEHIND))
    assert (claim.text, claim.column, claim.holds, claim.verdict) == ("A > B", "x", False, "does not hold")
    assert claim.why == "gp_local against clf; p = 0.0312 over 6 pairs of clients of 2 seeds"
    assert claims(recipe, found[:1]) == []  # --methods A: B is not in the table


def with_c(recipe: Recipe, *columns: str, **printed: Sequence[float]) -> Recipe:
    """With a third row C, A > C, and columns like x."""
    (x,) = recipe.columns
    rows = (*recipe.rows, dataclasses.replace(recipe.rows[1], name="C"))
    orders = (*recipe.orders, dataclasses.replace(recipe.orders[0], below="C"))
    more = tuple(dataclasses.replace(x, name=name, settings={"clients": 6}) for name in columns)
    return dataclasses.replace(
        recipe, rows=rows, orders=orders, columns=(x, *more), published={"mean": printed}
    )


def test_claims_of_one_row_are_corrected_together(tmp_path: Path) -> None:
    """A is above B and C by as much in all six pairs: p = 2/64 each, 4/64 for two at once (Holm). Against B
    alone it would hold."""
    recipe = with_c(recipe_of(tmp_path), A=[50.0], B=[49.0], C=[49.0])
    accuracies = {"A": A_BEHIND["B"], "B": A_BEHIND["A"], "C": A_BEHIND["A"]}
    found = cells_of(tmp_path, recipe, accuracies)
    assert [claim.holds for claim in claims(recipe, found)] == [None, None]
    assert "p = 0.0625 (Holm, 2 tests) over 6 pairs of clients of 2 seeds" in claims(recipe, found)[0].why
    (alone,) = claims(recipe, found[:2])
    assert alone.holds


@pytest.mark.parametrize(("of_b", "count"), [(49.0, 2), (51.0, 0)])
def test_a_column_without_numbers_is_claimed_as_the_others_are(
    tmp_path: Path, of_b: float, count: int
) -> None:
    """A is printed with 50 in x, nothing in y: A > B is claimed in both or in neither."""
    nan = math.nan
    recipe = with_c(recipe_of(tmp_path), "y", A=[50.0, nan], B=[of_b, nan], C=[50.0, nan])
    found = cells_of(tmp_path, recipe, {**A_BEHIND, "C": A_BEHIND["A"]})
    assert [claim.text for claim in claims(recipe, found)] == ["A > B"] * count


def test_no_claim_between_different_seeds(tmp_path: Path) -> None:
    """A has seeds 0 and 1, B seed 0 alone, both whole: other splits, so that data is not compared."""
    recipe = recipe_of(tmp_path)
    (a, _), (_, b) = (
        cells_of(
            tmp_path / str(seeds), recipe, {row: some[:seeds] for row, some in A_BEHIND.items()}, seeds=seeds
        )
        for seeds in (2, 1)
    )
    (claim,) = claims(recipe, [a, b])
    assert (claim.holds, claim.why) == (None, "unequal seeds")


def test_a_claim_says_which_row_is_spoilt(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    a, b = cells_of(tmp_path, recipe, A_BEHIND)
    (claim,) = claims(recipe, [a, dataclasses.replace(b, findings="collapsed")])
    assert "; B is marked †; p = 0.0312" in claim.why


@pytest.mark.parametrize(
    ("printed", "spread", "count"),
    [
        (49.0, False, 0),
        (50.0, False, 0),
        (51.0, False, 1),
        (math.nan, False, 1),
        (49.0, True, 1),
        (51.0, True, 0),
    ],
)
def test_an_order_that_the_printed_numbers_do_not_show_is_no_claim(
    tmp_path: Path, printed: float, spread: bool, count: int
) -> None:
    """A > B, or a smaller spread, where B is printed with 50."""
    recipe = recipe_of(tmp_path, order='by = "smaller_spread"' if spread else "")
    table = {"std" if spread else "mean": {"A": [printed], "B": [50.0]}}
    recipe = dataclasses.replace(recipe, published={**recipe.published, **table})
    assert len(claims(recipe, cells_of(tmp_path, recipe, A_BEHIND))) == count


def test_one_order_for_each_row_of_a_list(tmp_path: Path) -> None:
    path = tmp_path / "toy.toml"
    path.write_text(RECIPE.format(about="", column="", order="").replace('below = "B"', 'below = ["B", "A"]'))
    assert [(order.above, order.below) for order in read(path).orders] == [("A", "B"), ("A", "A")]


@pytest.mark.parametrize(
    ("ours", "why"),
    [
        ([[90, 90], [90, 90]], "4 pairs of clients of 2 seeds too few"),
        ([[61, 61, 65], [65, 69, 69]], "p = 1 over 6 pairs"),  # +1, −1, +1, −1, +1, −1
    ],
)
def test_what_cannot_be_told(tmp_path: Path, ours: list, why: str) -> None:
    few = [some[: len(ours[0])] for some in A_BEHIND["B"]]
    recipe = recipe_of(tmp_path)
    (claim,) = claims(recipe, cells_of(tmp_path, recipe, {"A": ours, "B": few}))
    assert (claim.holds, claim.verdict) == (None, "cannot tell")
    assert why in claim.why


def test_numbers_and_pairs_that_differ_the_other_way(tmp_path: Path) -> None:
    """Seven pairs: six of −1, one of +90; the reported mean is above, most clients are below: by ranks −21
    against 7, p = 0.3."""
    recipe = recipe_of(tmp_path)
    accuracies = {"A": [[9, 9, 9, 9, 9, 9, 95]] * 2, "B": [[10, 10, 10, 10, 10, 10, 5]] * 2}
    (claim,) = claims(recipe, cells_of(tmp_path, recipe, accuracies))
    assert claim.holds is None


def test_no_claim_while_one_row_is_behind(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    plans = plan_reproduction(recipe, Selection(seeds=1))
    accuracies = {"A": [[50] * 6], "B": [[40] * 6]}
    done = run_all(tmp_path, plans[:1], accuracies) | run_all(tmp_path, plans[1:], accuracies, rounds=1)
    found = cells(recipe, plans, done)
    assert [cell.complete for cell in found] == [True, False]
    assert [claim.holds for claim in claims(recipe, found)] == [None]
    even = [dataclasses.replace(cell, rounds=1) for cell in found]  # both paused after the same round
    assert [claim.holds for claim in claims(recipe, even)] == [True]


@pytest.mark.parametrize(("of_b", "unequal"), [((6, 4, 2), []), ((8, 4, 2), ["local steps"])])
def test_steps_are_compared_where_nobody_is_late(
    tmp_path: Path, of_b: tuple[int, ...], unequal: list[str]
) -> None:
    """A leaves late clients out, so that those who count make 6 steps at every share of stragglers; B takes
    the part of the work that they did. Without stragglers both make 3 a client, or B makes 4."""
    recipe = recipe_of(tmp_path, 'spread = "over"\nover = { stragglers = [0.0, 0.5, 0.8] }')
    done = {}
    for plan, mode, steps in zip(
        plan_reproduction(recipe, Selection(seeds=1)), ("gp_local", "clf"), ((6, 6, 6), of_b), strict=True
    ):
        for planned, made in zip(plan.by_seed[0], steps, strict=True):
            path, acc = tmp_path / plan.row.name / planned.folder, {mode: [[50.0]] * 2}
            done[planned.key] = write_run(path, planned, acc, steps=made)
    a, b = cells(recipe, plan_reproduction(recipe, Selection(seeds=1)), done)
    assert different(a.training, b.training) == unequal
    assert (a.training.steps, b.training.steps) == (3.0, of_b[0] / 2)


def test_no_claim_between_different_parts_of_an_average(tmp_path: Path) -> None:
    """A ran with three shares of stragglers, B with one: the same rounds and seeds, but no comparison."""
    recipe = recipe_of(tmp_path, 'spread = "over"\nover = { stragglers = [0.0, 0.5, 0.8] }')
    plans = plan_reproduction(recipe, Selection(seeds=1))
    done = run_all(tmp_path, plans, {"A": [[50] * 6], "B": [[40] * 6]})
    assert [claim.holds for claim in claims(recipe, cells(recipe, plans, done))] == [True]
    for planned in plans[1].by_seed[0][1:]:
        del done[planned.key]
    assert [claim.holds for claim in claims(recipe, cells(recipe, plans, done))] == [None]
    for planned in plans[0].by_seed[0][1:]:
        del done[planned.key]
    assert [claim.holds for claim in claims(recipe, cells(recipe, plans, done))] == [True]


def test_claims_of_losses_and_spreads(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, 'spread = "clients"', "", 'by = "smaller_spread"')
    accuracies = {"A": [[44, 52, 54], [48, 56, 58]], "B": [[59, 61, 60], [61, 63, 62]]}
    (claim,) = claims(recipe, cells_of(tmp_path, recipe, accuracies))
    assert (claim.text, claim.holds) == ("spread of A < B", False)  # 6, 2, 4 from the mean; 1, 1, 0 there
    assert "over 6 pairs" in claim.why
    recipe = recipe_of(tmp_path, 'spread = "clients"', 'measure = "train_loss"')
    assert claims(recipe, cells_of(tmp_path / "other", recipe, accuracies)) == []  # A's is printed as higher
    recipe = dataclasses.replace(recipe, published={"mean": {"A": [48.0], "B": [49.0]}})
    found = cells_of(tmp_path / "losses", recipe, accuracies)
    assert all(math.isnan(cell.spread) for cell in found)  # of accuracies there is one over clients only
    (claim,) = claims(recipe, found)
    assert (claim.text, claim.holds) == ("A < B", None)
    assert claim.why.endswith("2 pairs of runs too few for a test")
