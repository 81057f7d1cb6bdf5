"""Our numbers beside the printed ones, with a verdict for every cell.

Verdicts: `agrees` within the recipe's tolerance, `better`, `worse` (or `differs`, for costs), `not
comparable` with the reason (stand-in data, fewer rounds, changed settings), `no number` where the paper
prints none, `not run`, `not measured` where runs do not have the number (a target not reached). Every cell
shows the difference all the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..runs.outcome import Outcome
from .compare import outcomes
from .costs import COSTS
from .evidence import NONE, Evidence, evidence_of
from .footnotes import findings_of, levels_of
from .likeness import Training, training_of
from .measures import ACCURACIES, LOWER_IS_BETTER, client_spread, value_of
from .plan import Planned
from .recipe import Column, Recipe
from .reproduce import CellPlan
from .runner import FAILED, REFUSED, Done
from .statistics import mean, sample_std

AGREES, BETTER, WORSE, DIFFERS = "agrees", "better", "worse", "differs"
NOT_COMPARABLE, NO_NUMBER, NOT_RUN = "not comparable", "no number", "not run"
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Cell:
    """One cell of the printed table."""

    row: str
    column: str
    ours: float
    spread: float  # over what the paper's ± is over
    paper: float
    paper_spread: float
    difference: float
    verdict: str
    why: str
    seeds: int = 0
    rounds: int = 0
    seconds: float = 0.0
    complete: bool = True  # all seeds, all rounds
    majority: float = math.nan  # what the majority class reaches, and chance
    chance: float = math.nan
    findings: str = ""  # what spoils our number
    ran: tuple[str, ...] = ()  # seeds and, where it is an average, settings that it is over
    mode: str = ""  # prediction
    training: Training = Training()
    accuracy: float = math.nan  # of the same runs, where a recipe correlates with it
    converged: float = math.nan  # rounds until the accuracy stays, mean over the runs
    evidence: Evidence = NONE


def cells(recipe: Recipe, plans: Sequence[CellPlan], done: Mapping[str, Done]) -> list[Cell]:
    """All cells, from what is on disk (or computed, for costs)."""
    if recipe.about.costs:
        computed = COSTS[recipe.about.costs]()
        return [judged(recipe, p, _empty(recipe, p, computed)) for p in plans]
    return [judged(recipe, plan, _from_runs(recipe, plan, done)) for plan in plans]


def _empty(recipe: Recipe, plan: CellPlan, computed: Mapping[tuple[str, str], float] | None = None) -> Cell:
    row, column = plan.row.name, plan.column.name
    ours = math.nan if computed is None else computed.get((row, column), math.nan)
    paper, spread = (recipe.printed(kind, row, column) for kind in ("mean", "std"))
    return Cell(row, column, ours, math.nan, paper, spread, math.nan, NOT_RUN, "; ".join(plan.why))


def _from_runs(recipe: Recipe, plan: CellPlan, done: Mapping[str, Done]) -> Cell:
    empty = _empty(recipe, plan)
    by_seed = [outcomes([done[p.key] for p in runs if p.key in done]) for runs in plan.by_seed]
    by_seed = [runs for runs in by_seed if runs]
    problems = {done[p.key].message for p in plan.known(done) if done[p.key].state in (REFUSED, FAILED)}
    if not by_seed:
        return replace(empty, why="; ".join([*plan.why, *sorted(problems)]))
    beside = {done[p.key].path: (_path(p.reference, done), _path(p.baseline, done)) for p in plan.known(done)}
    values = [[_value(run, recipe, plan, beside[run.path]) for run in runs] for runs in by_seed]
    every = [run for runs in by_seed for run in runs]
    named, behind = _names(plan, done), _incomplete(plan, by_seed)
    mode = _mode(plan, every[0])
    percent = (plan.column.measure or recipe.about.measure) in ACCURACIES
    majority, chance = levels_of(every, mode) if percent else (math.nan, math.nan)
    return replace(
        empty,
        ours=mean([mean(of_seed) for of_seed in values]),
        spread=_spread(recipe, plan, by_seed, values),
        why="; ".join([*plan.why, *behind, *sorted(problems)]),
        seeds=len(by_seed),
        rounds=min(run.rounds for run in every),
        seconds=math.fsum(run.seconds for run in every),
        complete=not behind and len(by_seed) == len(plan.by_seed),
        majority=majority,
        chance=chance,
        findings=findings_of(every, mode),
        ran=tuple(named[run.path] for run in every),
        mode=mode,
        training=training_of(every),
        converged=mean([c for run in every if (c := run.converged(mode)) is not None]),
        accuracy=_accuracy(recipe, plan, by_seed),
        evidence=evidence_of(recipe.about, plan.column, mode, by_seed, values, named),
    )


def _names(plan: CellPlan, done: Mapping[str, Done]) -> dict[Path, str]:
    """Names of the runs of a cell, the same for every row."""
    return {
        done[planned.key].path: f"seed {planned.seed}" + (f", part {part}" if len(runs) > 1 else "")
        for runs in plan.by_seed
        for part, planned in enumerate(runs, 1)
        if planned.key in done
    }


def _value(run: Outcome, recipe: Recipe, plan: CellPlan, beside: tuple[Path | None, Path | None]) -> float:
    return value_of(run, _mode(plan, run), recipe.about, plan.column, beside)


def _accuracy(recipe: Recipe, plan: CellPlan, by_seed: Sequence[Sequence[Outcome]]) -> float:
    if not recipe.about.correlate:
        return math.nan
    column, about = replace(plan.column, measure=recipe.about.correlate), recipe.about
    runs = [
        [value_of(run, _mode(plan, run), about, column, (None, None)) for run in some] for some in by_seed
    ]
    return mean([mean(values) for values in runs])


def _mode(plan: CellPlan, run: Outcome) -> str:
    return plan.row.mode or run.modes[0]


def _path(planned: Planned | None, done: Mapping[str, Done]) -> Path | None:
    return done[planned.key].path if planned and planned.key in done else None


def _spread(
    recipe: Recipe, plan: CellPlan, by_seed: Sequence[Sequence[Outcome]], values: Sequence[Sequence[float]]
) -> float:
    """Over clients or over a setting it is averaged over the seeds."""
    about = recipe.about
    if about.spread == "clients":
        runs = [run for of_seed in by_seed for run in of_seed]
        released = plan.row.released_spread
        return mean([client_spread(run, _mode(plan, run), about, plan.column, released) for run in runs])
    if about.spread == "over" or plan.column.over:
        return mean([sample_std(of_seed) for of_seed in values])
    return sample_std([mean(of_seed) for of_seed in values])


def _incomplete(plan: CellPlan, by_seed: Sequence[Sequence[Outcome]]) -> list[str]:
    runs = [run for of_seed in by_seed for run in of_seed]
    behind = [run for run in runs if run.rounds < (plan.column.round or run.planned_rounds)]
    found = []
    if behind:
        least = min(behind, key=lambda run: run.rounds)
        found.append(f"only {least.rounds} of {least.planned_rounds} rounds done so far")
    if any(len(of_seed) < len(plan.by_seed[0]) for of_seed in by_seed):
        found.append("not all runs of the average started so far")
    return found


# verdicts


def judged(recipe: Recipe, plan: CellPlan, cell: Cell) -> Cell:
    """The cell with its difference from the printed number, and a verdict."""
    difference = cell.ours - cell.paper
    if math.isnan(cell.ours):
        verdict = NOT_MEASURED if cell.seeds else NOT_RUN
    elif math.isnan(cell.paper):
        verdict = NO_NUMBER
    elif cell.why:
        verdict = NOT_COMPARABLE
    else:
        also = recipe.printed("also", cell.row, cell.column)
        verdict = judge(cell.ours, (cell.paper, also), *rule_of(recipe, plan.column))
    return replace(cell, difference=difference, verdict=verdict)


def rule_of(recipe: Recipe, column: Column) -> tuple[float, str]:
    """The tolerance, and which way is better."""
    about = recipe.about
    lower = (column.measure or about.measure) in LOWER_IS_BETTER
    tolerance = about.tolerance if column.tolerance is None else column.tolerance
    return tolerance, "lower" if lower else about.better


def judge(ours: float, papers: Sequence[float], tolerance: float, better: str) -> str:
    """A verdict; where a paper prints two values for one cell, either may be met.

    >>> judge(95.0, (91.4, 95.04), 2.0, "higher"), judge(95.0, (91.4,), 2.0, "higher")
    ('agrees', 'better')
    """
    gaps = [ours - paper for paper in papers if not math.isnan(paper)]
    if min(abs(gap) for gap in gaps) <= tolerance + 1e-9:
        return AGREES
    if better == "neither":
        return DIFFERS
    return BETTER if (gaps[0] > 0) == (better == "higher") else WORSE
