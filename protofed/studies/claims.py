"""What a paper claims about the order of its rows, and whether it holds here.

An order of two rows is a claim in every column whose printed numbers show it; in a column without printed
numbers where every other one shows it, so of curves without numbers in all. It holds, or does not, where the
pairs of both rows (the same run and client) differ that way by a two-sided Wilcoxon test, p < 0.05 after
Holm's correction for all rows that one row is compared with in the column; for a spread the distances from
its middle are compared. Otherwise it cannot be told: rows that were not trained alike, too few pairs, a
difference that may be chance, or pairs that differ the other way than the reported numbers do. What is
computed without runs is compared as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..runs.modes import title
from .cells import Cell, rule_of
from .likeness import different
from .recipe import Column, Order, Recipe
from .statistics import holm, mean, paired_p

LEVEL = 0.05
HOLDS, DOES_NOT, CANNOT_TELL = "holds", "does not hold", "cannot tell"


@dataclass(frozen=True)
class Claim:
    """An order that should hold, in one column; `holds` is None where it cannot be told, and `why` says why,
    or by which predictions and statistics it was. `gap`: by how much the reported numbers show the order."""

    text: str
    column: str
    holds: bool | None
    why: str = ""
    gap: float = math.nan

    @property
    def verdict(self) -> str:
        """In words."""
        return CANNOT_TELL if self.holds is None else HOLDS if self.holds else DOES_NOT


def claims(recipe: Recipe, found: Sequence[Cell]) -> list[Claim]:
    """The recipe's orders in every column where both rows were run."""
    ran = {(cell.row, cell.column): cell for cell in found if cell.seeds or not math.isnan(cell.ours)}
    tested = [
        _tested(order, column, recipe, ran[order.above, column.name], ran[order.below, column.name])
        for order in recipe.orders
        for column in recipe.columns
        if {(order.above, column.name), (order.below, column.name)} <= ran.keys()
        and column.measure != "start"
        and _is_claimed(order, column, recipe)
    ]
    families: dict[tuple[str, str, str], list[int]] = {}
    for i, one in enumerate(tested):
        families.setdefault(one.family, []).append(i)
    judged = list(tested)
    for family in families.values():
        adjusted = holm([tested[i].p for i in family])
        together = sum(not math.isnan(p) for p in adjusted)
        for i, p in zip(family, adjusted):
            judged[i] = replace(tested[i], p=p, together=together)
    return [one.claim() for one in judged]


def _is_claimed(order: Order, column: Column, recipe: Recipe) -> bool:
    """Whether the paper's numbers show the order in this column, or it prints none for these rows."""
    above, below = _printed(order, column, recipe)
    if math.isnan(above - below):
        return all(_is_shown(order, one, recipe) for one in recipe.columns)
    return _is_shown(order, column, recipe)


def _is_shown(order: Order, column: Column, recipe: Recipe) -> bool:
    """Whether no printed number of the column speaks against the order."""
    above, below = _printed(order, column, recipe)
    if math.isnan(above - below):
        return True
    return above < below if _smaller(order, column, recipe) else above > below


def _printed(order: Order, column: Column, recipe: Recipe) -> list[float]:
    kind = "std" if order.by == "smaller_spread" else "mean"
    return [recipe.printed(kind, row, column.name) for row in (order.above, order.below)]


def _smaller(order: Order, column: Column, recipe: Recipe) -> bool:
    return order.by == "smaller_spread" or rule_of(recipe, column)[1] == "lower"


def as_claims(found: Sequence[Claim]) -> list[dict[str, Any]]:
    """As plain dictionaries, for JSON."""
    return [{**vars(claim), "gap": round(claim.gap, 3), "verdict": claim.verdict} for claim in found]


@dataclass(frozen=True)
class _Tested:
    """Two rows compared in one column."""

    family: tuple[str, str, str]  # what is corrected together: the row above, what is compared, the column
    text: str
    gap: float = math.nan  # by how much the reported numbers show the order
    between: float = math.nan  # the same of the pairs
    p: float = math.nan
    together: int = 1  # tests of the family
    pairs: str = ""
    refused: str = ""  # why the rows are not compared
    notes: tuple[str, ...] = ()

    def claim(self) -> Claim:
        """What can be told, and the statistics."""
        _, _, column = self.family
        if self.refused:
            return Claim(self.text, column, None, self.refused)
        told, said = self._told()
        why = "; ".join([*self.notes, *([said] if said else [])])
        return Claim(self.text, column, self.gap > 0 if told else None, why, self.gap)

    def _told(self) -> tuple[bool, str]:
        if not self.pairs:
            return True, ""
        if math.isnan(self.p):
            return False, f"{self.pairs} too few for a test"
        corrected = f" (Holm, {self.together} tests)" if self.together > 1 else ""
        said = f"p = {self.p:.3g}{corrected} over {self.pairs}"
        if self.p >= LEVEL:
            return False, said
        if self.between * self.gap > 0:
            return True, said
        return False, f"{said}, which differ the other way ({self.between:+.2f})"


def _tested(order: Order, column: Column, recipe: Recipe, one: Cell, two: Cell) -> _Tested:
    spread = order.by == "smaller_spread"
    smaller = _smaller(order, column, recipe)
    text = f"{'spread of ' if spread else ''}{order.above} {'<' if smaller else '>'} {order.below}"
    found = _Tested((order.above, order.by, column.name), text)
    above, below = (cell.spread if spread else cell.ours for cell in (one, two))
    if math.isnan(above) or math.isnan(below):
        return replace(found, refused="a number is missing")
    if _uneven((one, two)):
        return replace(found, refused="one row is behind the other")
    if unlike := different(one.training, two.training):
        return replace(found, refused=f"unequal {', '.join(unlike)}")
    found = replace(found, gap=below - above if smaller else above - below, notes=_notes(one, two))
    kind = "deviations" if spread else "values"
    first, second = getattr(one.evidence, kind), getattr(two.evidence, kind)
    if not first and not second:
        return found
    shared = [key for key in first if key in second]
    between = mean([first[key] - second[key] for key in shared]) * (-1 if smaller else 1)
    return replace(found, between=between, p=paired_p(first, second), pairs=_pairs(shared))


def _notes(*pair: Cell) -> tuple[str, ...]:
    """What a reader of the verdict must know of the two rows: by what they are read, and what spoils them."""
    modes = [cell.mode for cell in pair]
    unlike = [f"{title(modes[0])} against {title(modes[1])}"] if len(set(modes)) > 1 else []
    return (*unlike, *(f"{cell.row} is marked †" for cell in pair if cell.findings))


def _pairs(names: Sequence[str]) -> str:
    """How many, of what and, where they are clients of few models, of how many seeds."""
    clients = any(", client " in name for name in names)
    found = f"{len(names)} pair{'s' * (len(names) != 1)} of {'clients' if clients else 'runs'}"
    seeds = len({match[0] for name in names if (match := re.match(r"seed \d+", name))})
    return f"{found} of {seeds} seed{'s' * (seeds != 1)}" if clients and seeds else found


def _uneven(pair: Sequence[Cell]) -> bool:
    """Whether one of the cells is behind the other: more rounds or other seeds are no better method."""
    behind = any(not cell.complete for cell in pair)
    return behind and len({(cell.ran, cell.rounds) for cell in pair}) > 1
