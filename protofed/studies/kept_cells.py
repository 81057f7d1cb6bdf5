"""Cells of earlier calls, in the outcome beside a page: a table that takes days is run part by part.

What is kept of a cell are its seeds, each whole, with the values of its runs and clients. So a call may add
rows, columns or seeds to those that are there, and a claim can be judged between rows that were run on
different days. A seed counts as long as the recipe, with the settings that are given, still plans the same
runs for it.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.checksums import digest
from ..core.errors import ConfigError, RunError
from ..runs.files import read_json
from .cells import Cell, cells, judged
from .evidence import Evidence
from .likeness import Training, joined_texts
from .recipe import About, Recipe
from .reproduce import CellPlan, Selection, plan_reproduction, seeds_of
from .runner import Done
from .shared_cells import by_reading, reading, recipes_beside
from .statistics import mean, sample_std

log = logging.getLogger(__name__)
DIGITS = 6
Named = tuple[str, str]  # row, column
Parts = Mapping[str, Cell]  # the seeds of a cell, by what each rests on


@dataclass(frozen=True)
class Kept:
    """A cell of all its seeds that are finished, and these one by one."""

    cell: Cell
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True)
class PagePlan:
    """What a page can hold: the cells of the whole recipe, seed by seed, which of them this call chose, and
    what earlier calls left in the outcome beside it."""

    recipe: Recipe
    chosen: set[Named]
    by_seed: Sequence[Sequence[CellPlan]]
    there: Mapping[Named, Parts]
    beside: Mapping[Any, Cell]  # of other pages in the folder, by runs and reading
    outcome: Path


def plan_page(recipe: Recipe, choice: Selection, outcome: Path) -> PagePlan:
    """Plan a page before anything is run, so that what is wrong is told before it takes time."""
    there = _read(outcome)
    earlier = {seed for parts in there.values() for part in parts.values() for seed in _seeds(part)}
    seeds = sorted({*seeds_of(recipe, choice), *earlier})
    chosen = {_name(plan) for plan in plan_reproduction(recipe, replace(choice, seeds=1))}
    beside: dict[Any, Cell] = {}
    for other, path in recipes_beside(outcome):
        beside |= by_reading(other, _read(path))
    by_seed = [_of_seed(recipe, choice, seed) for seed in seeds]
    return PagePlan(recipe, chosen, by_seed, there, beside, outcome)


def with_earlier(page: PagePlan, done: Mapping[str, Done]) -> list[Kept]:
    """The cells of a whole recipe: the chosen ones as this call finished them, seed by seed; the others, and
    what is not finished, from the outcome; what was chosen, from another page that rests on the same runs,
    too. A setting that is given for one column can make the next one the same run, and that is not the cell
    the paper has there: what is neither chosen nor kept has no number."""
    recipe, kept = page.recipe, []
    unused = Counter({name: len(parts) for name, parts in page.there.items()})
    for planned in zip(*page.by_seed):
        name = _name(planned[0])
        fresh = cells(recipe, planned, done if name in page.chosen else {})
        earlier, parts = page.there.get(name, {}), {}
        for mark, cell in zip(map(_mark, planned), fresh):
            unused[name] -= mark in earlier
            if name in page.chosen and cell.complete and not math.isnan(cell.ours):
                parts[mark] = cell
            elif mark in earlier:
                parts[mark] = earlier[mark]
            elif name in page.chosen and (shared := _shared(page, planned[0], mark)):
                parts[mark] = shared
        begun = max(fresh, key=lambda cell: cell.rounds)
        kept.append(Kept(joined(recipe, planned[0], list(parts.values())) if parts else begun, parts))
    _tell_unused(page.outcome, [name for name in page.there if unused[name] > 0])
    return kept


def _shared(page: PagePlan, plan: CellPlan, mark: str) -> Cell | None:
    found = page.beside.get((mark, reading(page.recipe, plan.row, plan.column)))
    return found and replace(found, row=plan.row.name, column=plan.column.name, why="; ".join(plan.why))


def all_kept(recipe: Recipe, outcome: Path) -> list[Cell]:
    """The cells of an outcome, whatever settings its calls were given."""
    rows = {row.name: row for row in recipe.rows}
    columns = {column.name: column for column in recipe.columns}
    return [
        joined(recipe, CellPlan(rows[row], columns[column], (), ()), list(parts.values()))
        for (row, column), parts in _read(outcome).items()
        if row in rows and column in columns
    ]


def _of_seed(recipe: Recipe, choice: Selection, seed: int) -> list[CellPlan]:
    """All cells of one seed. Options of a method are meant for the rows that were chosen alone."""
    settings = {**(choice.settings or {}), **({} if recipe.about.costs else {"seed": seed})}
    mine = plan_reproduction(recipe, Selection(choice.rows, (), 1, settings))
    chosen = {_name(plan): plan for plan in mine}
    others = {name: value for name, value in settings.items() if name != "options"}
    plans = plan_reproduction(recipe, Selection(settings=others, seeds=1))
    return [chosen.get(_name(plan), plan) for plan in plans]


def _name(plan: CellPlan) -> Named:
    return plan.row.name, plan.column.name


def _mark(plan: CellPlan) -> str:
    """What a cell rests on: the keys of its runs."""
    return digest(repr(sorted(planned.key for planned in plan.runs)).encode())[:12]


def _seeds(part: Cell) -> list[int]:
    """Of its runs: "seed 3, part 1". What is computed without runs has none."""
    return [int(number) for name in part.ran for number in re.findall(r"^seed (\d+)", name)]


def _tell_unused(outcome: Path, names: Sequence[Named]) -> None:
    if names:
        some = "; ".join(", ".join(name) for name in sorted(names)[:3])
        about = "are of other settings or another recipe, and are left out"
        log.warning("%s: %d of its cells %s (%s)", outcome, len(names), about, some)


# several seeds as one cell


def joined(recipe: Recipe, plan: CellPlan, parts: Sequence[Cell]) -> Cell:
    """One cell of its seeds: what `cells` gives where all of them are run by one call."""
    printed = (recipe.printed(kind, plan.row.name, plan.column.name) for kind in ("mean", "std"))
    about, (paper, paper_spread) = recipe.about, printed
    first = replace(parts[0], paper=paper, paper_spread=paper_spread)
    if len(parts) == 1:
        return judged(recipe, plan, first)
    by_clients_or_settings = about.spread in ("clients", "over") or bool(plan.column.over)
    ours = [part.ours for part in parts]
    found = replace(
        first,
        ours=mean(ours),
        spread=mean([part.spread for part in parts]) if by_clients_or_settings else sample_std(ours),
        why="; ".join(dict.fromkeys(part.why for part in parts if part.why)),
        seeds=sum(part.seeds for part in parts),
        rounds=min(part.rounds for part in parts),
        seconds=math.fsum(part.seconds for part in parts),
        majority=mean([part.majority for part in parts]),
        chance=mean([part.chance for part in parts]),
        findings=_findings(parts),
        ran=tuple(name for part in parts for name in part.ran),
        training=_training(parts),
        accuracy=mean([part.accuracy for part in parts]),
        converged=mean([part.converged for part in parts if not math.isnan(part.converged)]),
        evidence=_evidence(about, parts, by_clients_or_settings),
    )
    return judged(recipe, plan, found)


def _findings(parts: Sequence[Cell]) -> str:
    said = Counter(part.findings for part in parts if part.findings)
    of = len(parts)
    return "; also: ".join(
        text if times == of else f"{text} (in {times} of {of} seeds)" for text, times in said.items()
    )


def _training(parts: Sequence[Cell]) -> Training:
    each = [part.training for part in parts]
    names = dict.fromkeys(name for one in each for name in one.settings)
    settings = {name: joined_texts([one.settings.get(name, "") for one in each]) for name in names}
    seeds = tuple(sorted({seed for one in each for seed in one.seeds}))
    data = joined_texts([one.data for one in each])
    return Training(settings, mean([one.steps for one in each]), data, seeds)


def _evidence(about: About, parts: Sequence[Cell], own_middle: bool) -> Evidence:
    """Values of all; where ± is over seeds, the middle from which they deviate is that of all seeds."""
    values = {name: value for part in parts for name, value in part.evidence.values.items()}
    if own_middle:
        far = {name: value for part in parts for name, value in part.evidence.deviations.items()}
    else:
        middle = mean([part.ours for part in parts])
        far = {name: abs(part.ours - middle) for part in parts for name in part.ran}
    return Evidence(values, far)


# in the file


def written(kept: Kept, spreads: bool) -> dict[str, Any]:
    """As it is written; how far values lie from their middle only where a claim is about a spread."""
    if len(kept.parts) == 1:
        (mark,) = kept.parts
        return _written(kept.cell, mark, spreads)
    whole = _written(kept.cell, "", spreads)
    parts = [_written(part, mark, spreads) for mark, part in kept.parts.items()]
    return {name: value for name, value in whole.items() if name not in ("evidence", "mark")} | {
        "parts": parts
    }


def _written(cell: Cell, mark: str, spreads: bool) -> dict[str, Any]:
    values = dataclasses.asdict(cell)
    evidence = values.pop("evidence")
    if not spreads:
        del evidence["deviations"]
    return {**_rounded(values), "evidence": _rounded(evidence), "mark": mark}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_rounded(item) for item in value]
    return round(value, DIGITS) if isinstance(value, float) and math.isfinite(value) else value


def _read(outcome: Path) -> Mapping[Named, Parts]:
    if not outcome.exists():
        return {}
    try:
        rows = [part for row in read_json(outcome)["cells"] for part in row.get("parts", [row])]
        found: dict[Named, dict[str, Cell]] = {}
        for row in rows:
            if "mark" in row:
                cell = _cell(row)
                found.setdefault((cell.row, cell.column), {})[row["mark"]] = cell
        return found
    except (KeyError, TypeError, ValueError, AttributeError, RunError) as error:
        raise ConfigError(f"--publish: {outcome} holds no outcome of a reproduction: {error}") from error


def _cell(row: Mapping[str, Any]) -> Cell:
    values: dict[str, Any] = {key: _number(value) for key, value in row.items() if key != "mark"}
    settings, steps, data, *seeds = values["training"]
    values["training"] = Training(settings, _number(steps), data, *map(tuple, seeds))
    values["evidence"] = Evidence(**values["evidence"])
    values["ran"] = tuple(values["ran"])
    return Cell(**values)


def _number(value: Any) -> Any:
    """JSON knows no NaN: it was written as null."""
    return math.nan if value is None else value
