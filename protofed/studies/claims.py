"""What a paper claims about the order of its rows, and whether it holds here.

An order of two rows is a claim in every column whose printed numbers show it, of curves without numbers in
every one. It holds, or does not, where the pairs of both rows (the same run and client) differ that way by a
two-sided Wilcoxon test, p < 0.05; for a spread the distances from its middle are compared. Otherwise it
cannot be told: rows that were not trained alike, too few pairs, a difference that may be chance, or pairs
that differ the other way than the reported numbers do. What is computed without runs is compared as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..runs.modes import title
from .cells import Cell, rule_of
from .likeness import different
from .recipe import Column, Order, Recipe
from .statistics import FEWEST_PAIRS, mean, paired_p

LEVEL = 0.05
HOLDS, DOES_NOT, CANNOT_TELL = "holds", "does not hold", "cannot tell"


@dataclass(frozen=True)
class Claim:
    """An order that should hold, in one column; `holds` is None where it cannot be told, and `why` says why,
    or by which predictions and statistics it was."""

    text: str
    column: str
    holds: bool | None
    why: str = ""

    @property
    def verdict(self) -> str:
        """In words."""
        return CANNOT_TELL if self.holds is None else HOLDS if self.holds else DOES_NOT


def claims(recipe: Recipe, found: Sequence[Cell]) -> list[Claim]:
    """The recipe's orders in every column where both rows were run."""
    ran = {(cell.row, cell.column): cell for cell in found if cell.seeds or not math.isnan(cell.ours)}
    return [
        _claim(order, column, recipe, ran[order.above, column.name], ran[order.below, column.name])
        for order in recipe.orders
        for column in recipe.columns
        if {(order.above, column.name), (order.below, column.name)} <= ran.keys()
        and column.measure != "start"
        and _is_claimed(order, column, recipe)
    ]


def _is_claimed(order: Order, column: Column, recipe: Recipe) -> bool:
    """Whether the paper's numbers show the order in this column, or it prints none for these rows."""
    above, below = _printed(order, column, recipe)
    if math.isnan(above - below):
        return all(math.isnan(sum(_printed(order, one, recipe))) for one in recipe.columns)
    return above < below if _smaller(order, column, recipe) else above > below


def _printed(order: Order, column: Column, recipe: Recipe) -> list[float]:
    kind = "std" if order.by == "smaller_spread" else "mean"
    return [recipe.printed(kind, row, column.name) for row in (order.above, order.below)]


def _smaller(order: Order, column: Column, recipe: Recipe) -> bool:
    return order.by == "smaller_spread" or rule_of(recipe, column)[1] == "lower"


def as_claims(found: Sequence[Claim]) -> list[dict[str, Any]]:
    """As plain dictionaries, for JSON."""
    return [{**vars(claim), "verdict": claim.verdict} for claim in found]


def _claim(order: Order, column: Column, recipe: Recipe, *pair: Cell) -> Claim:
    spread = order.by == "smaller_spread"
    smaller = _smaller(order, column, recipe)
    text = f"{'spread of ' if spread else ''}{order.above} {'<' if smaller else '>'} {order.below}"
    one, two = (cell.spread if spread else cell.ours for cell in pair)
    if math.isnan(one) or math.isnan(two):
        return Claim(text, column.name, None, "a number is missing")
    if _uneven(pair):
        return Claim(text, column.name, None, "one row is behind the other")
    if unlike := different(*(cell.training for cell in pair)):
        return Claim(text, column.name, None, f"unequal {', '.join(unlike)}")
    gap = two - one if smaller else one - two
    told, why = _told(gap, pair[0], pair[1], spread, smaller)
    modes = [cell.mode for cell in pair]
    said = [f"{title(modes[0])} against {title(modes[1])}"] if len(set(modes)) > 1 else []
    return Claim(text, column.name, gap > 0 if told else None, "; ".join([*said, *([why] if why else [])]))


def _told(gap: float, one: Cell, two: Cell, spread: bool, smaller: bool) -> tuple[bool, str]:
    """Whether the pairs tell which way the rows differ, and the statistics."""
    kind = "deviations" if spread else "values"
    first, second = getattr(one.evidence, kind), getattr(two.evidence, kind)
    shared = [key for key in first if key in second]
    if not first and not second:
        return True, ""
    if len(shared) < FEWEST_PAIRS:
        return False, f"by {gap:+.2f}; {len(shared)} {_pairs(shared)} too few for a test"
    p = paired_p(first, second)
    said = f"by {gap:+.2f}; p = {p:.3g} over {len(shared)} {_pairs(shared)}"
    gaps = mean([first[key] - second[key] for key in shared]) * (-1 if smaller else 1)
    if p >= LEVEL:
        return False, said
    return (True, said) if gaps * gap > 0 else (False, f"{said}, which differ the other way ({gaps:+.2f})")


def _pairs(names: Sequence[str]) -> str:
    kind = "pairs of clients" if any(", client " in name for name in names) else "pairs of runs"
    return kind if len(names) != 1 else kind.replace("pairs", "pair")


def _uneven(pair: Sequence[Cell]) -> bool:
    """Whether one of the cells is behind the other: more rounds or other seeds are no better method."""
    behind = any(not cell.complete for cell in pair)
    return behind and len({(cell.ran, cell.rounds) for cell in pair}) > 1
