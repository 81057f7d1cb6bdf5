"""Several methods on one setting, and the table that a paper would print.

All methods get the same split, first weights, participants and batches: these are drawn from (seed, …)
alone, and the local training is the same for all (see `plan.common_training`). A method written with a
preset of its own (`fedproto:preset=official`) brings that preset's training, and so its own batches.

Reading the table: accuracy is the mean over clients, then over seeds. "± clients" is the standard deviation
over clients (ddof 0), averaged over seeds; "± seeds" that of the mean over seeds (ddof 1). "best" is the
round with the highest mean. Δ and p compare with the first method, in the main mode of each (or in the one
mode asked for), at the last test, over the seeds that both have; see `statistics`. Neither is given where
the rounds differ, and no p where the clients hold other data, as in a sweep over the partition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..config import Config, resolve
from ..core.algorithm import methods
from ..core.errors import ConfigError
from ..core.options import parse_spec
from ..runs.modes import check_mode, title
from ..runs.outcome import Outcome
from .plan import MethodChoice, Planned, check_no_options, common_training, read_method
from .runner import FAILED, FINISHED, PAUSED, REFUSED, Done
from .statistics import holm, mean, paired_p, sample_std
from .tables import Table, number, with_spread


@dataclass(frozen=True)
class Line:
    """One method under one prediction mode, over its seeds."""

    method: str
    mode: str
    main: bool  # the mode that the method's paper reports
    seeds: int
    rounds: int  # done by all seeds
    planned_rounds: int
    last: float
    last_std_clients: float
    last_std_seeds: float
    best: float
    best_round: float
    best_rounds: str  # of all seeds: "7", or "7–12"
    best_std_seeds: float
    worst_client: float
    converged: float  # round; NaN if some seed did not
    up_params: float  # a round
    down_params: float
    bytes: float  # a run
    seconds: float  # a run
    gap: float = math.nan  # to the first method, in points
    p: float = math.nan
    p_holm: float = math.nan


@dataclass(frozen=True)
class Comparison:
    """The lines of a table, and what could not be run."""

    lines: list[Line]
    refused: dict[str, str]
    failed: dict[str, str]
    waiting: list[str]
    planned_seeds: dict[str, int]


def plan_comparison(texts: Sequence[str], settings: Mapping[str, Any], seeds: int) -> list[Planned]:
    """The runs of a comparison. "all" stands for every method that is not named beside it, Local first:
    the one to beat."""
    check_no_options(settings, "fedproto:lam=0.1")
    named = {parse_spec(text)[0] for text in texts}
    every = [name for name in ("local", *methods) if name not in named]
    written = [name for text in texts for name in (every if text == "all" else [text])]
    choices = [read_method(text) for text in dict.fromkeys(written)]
    if not choices:
        raise ConfigError("compare: name at least one method, or all")
    found = []
    for choice in choices:
        config = _config(choice, settings)
        found += [Planned(choice.label, replace(config, seed=seed)) for seed in seed_range(settings, seeds)]
    check_different(found, "compare")
    return found


def check_different(plan: Sequence[Planned], study: str) -> None:
    """Refuse a study of which two rows are the same run."""
    rows: dict[str, str] = {}
    for planned in plan:
        first = rows.setdefault(planned.key, planned.row)
        if first != planned.row:
            raise ConfigError(f"{study}: {first} and {planned.row} are the same run; leave one out")


def seed_range(settings: Mapping[str, Any], seeds: int) -> range:
    """As many seeds as wanted, from the given one on."""
    if seeds < 1:
        raise ConfigError(f"seeds: must be at least 1, got {seeds}")
    first = resolve({"seed": settings.get("seed", 0)}).seed
    return range(first, first + seeds)


def _config(choice: MethodChoice, settings: Mapping[str, Any]) -> Config:
    weakest, strongest = choice.layers()
    shared = common_training(settings) if choice.preset is None else {"sampling": "uniform", **settings}
    return resolve(weakest, shared, strongest)


def compare(done: Sequence[Done], modes: str = "all") -> Comparison:
    """Numbers of all rows, from what is on disk.

    Seeds that are behind the others of their row are left out: an average of different rounds says nothing.
    Where `modes` names one mode, methods are compared in it, else each in its main mode.
    """
    rows: dict[str, list[Done]] = {}
    for one in done:
        rows.setdefault(one.planned.row, []).append(one)
    runs = {row: _furthest(outcomes(of_row)) for row, of_row in rows.items()}
    lines = [line for row, found in runs.items() for line in _lines(row, found)]
    refused = {one.planned.row: one.message for one in done if one.state == REFUSED}
    failed = {
        f"{one.planned.row}, seed {one.planned.seed}": one.message for one in done if one.state == FAILED
    }
    known = {one.planned.row for one in done if one.state in (REFUSED, FAILED)}
    waiting = [row for row, found in runs.items() if not found and row not in known]
    seeds = {row: len(of_row) for row, of_row in rows.items()}
    return Comparison(_with_significance(lines, runs, modes), refused, failed, waiting, seeds)


def _furthest(runs: Sequence[Outcome]) -> list[Outcome]:
    most = max((run.rounds for run in runs), default=0)
    return [run for run in runs if run.rounds == most]


def outcomes(done: Sequence[Done]) -> list[Outcome]:
    """Runs with at least one test."""
    found = [Outcome.read(one.path) for one in done if one.state in (FINISHED, PAUSED)]
    return [outcome for outcome in found if outcome.tests]


def _lines(row: str, runs: Sequence[Outcome]) -> list[Line]:
    modes = runs[0].modes if runs else []
    return [_line(row, mode, mode == modes[0], runs) for mode in modes]


def _line(row: str, mode: str, main: bool, runs: Sequence[Outcome]) -> Line:
    last = [run.last(mode) for run in runs]
    best = [run.best(mode) for run in runs]
    best_rounds = [round for _, round in best if round is not None]
    converged = [run.converged(mode) for run in runs]
    return Line(
        method=row,
        mode=mode,
        main=main,
        seeds=len(runs),
        rounds=min(run.rounds for run in runs),
        planned_rounds=runs[0].planned_rounds,
        last=mean(last),
        last_std_clients=mean([run.last(mode, "std") for run in runs]),
        last_std_seeds=sample_std(last),
        best=mean([value for value, _ in best]),
        best_round=mean(best_rounds),
        best_rounds="–".join(dict.fromkeys(str(end(best_rounds)) for end in (min, max) if best_rounds)),
        best_std_seeds=sample_std([value for value, _ in best]),
        worst_client=mean([run.last(mode, "worst") for run in runs]),
        converged=math.nan if None in converged else mean([c for c in converged if c is not None]),
        up_params=mean([run.per_round("up") for run in runs]),
        down_params=mean([run.per_round("down") for run in runs]),
        bytes=mean([run.bytes for run in runs]),
        seconds=mean([run.seconds for run in runs]),
    )


def _with_significance(
    lines: Sequence[Line], runs: Mapping[str, Sequence[Outcome]], modes: str
) -> list[Line]:
    """Add gap and p to the compared lines of all methods but the first."""
    mains = [line for line in lines if compared(line, modes)]
    if not mains:
        return list(lines)
    first, others = mains[0], mains[1:]
    against = [_against(line, first, runs) for line in others]
    adjusted = holm([p for _, p in against])
    added = {
        line.method: replace(line, gap=gap, p=p, p_holm=p_holm)
        for line, (gap, p), p_holm in zip(others, against, adjusted)
    }
    return [added.get(line.method, line) if compared(line, modes) else line for line in lines]


def compared(line: Line, modes: str) -> bool:
    """Whether methods are compared by this line: the mode asked for, or each method's main one."""
    return line.main if modes in ("all", "main") or "+" in modes else line.mode == modes


def _against(line: Line, first: Line, runs: Mapping[str, Sequence[Outcome]]) -> tuple[float, float]:
    """Difference and p over the seeds that both have; NaN where they cannot be compared."""
    shared = {run.seed for run in runs[line.method]} & {run.seed for run in runs[first.method]}
    ours, theirs = ([run for run in runs[one.method] if run.seed in shared] for one in (line, first))
    if len({run.rounds for run in (*ours, *theirs)}) != 1:
        return math.nan, math.nan
    gap = mean([run.last(line.mode) for run in ours]) - mean([run.last(first.mode) for run in theirs])
    if len({_clients(run.config) for run in (*ours, *theirs)}) != 1:
        return gap, math.nan
    return gap, paired_p(_pairs(ours, line.mode), _pairs(theirs, first.mode))


def _clients(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """What decides which samples a client has, and which clients are tested."""
    system, rounds = config["system"], config["rounds"]
    top = tuple(config[name] for name in ("data", "partition", "clients"))
    return *top, rounds.get("newcomers"), system.get("eval_clients")


def _pairs(runs: Sequence[Outcome], mode: str) -> dict[Any, float]:
    return {(run.seed, client): value for run in runs for client, value in run.clients(mode).items()}


# tables

ACCURACY = (
    "method", "prediction", "last ± clients", "± seeds", "best ± seeds (round)", "worst", "converged",
    "Δ", "p",
)  # fmt: skip
COST = ("method", "rounds", "up a round", "down a round", "MB a run", "seconds a run")


def comparison_tables(found: Comparison, heading: str, modes: str = "all") -> list[Table]:
    """Accuracy and cost. `modes`: "all", "main", or names joined by "+"."""
    lines = [line for line in found.lines if shown(line, modes)]
    firsts = {line.method: i for i, line in reversed(list(enumerate(lines)))}
    rows = [_accuracy(line, firsts[line.method] == i) for i, line in enumerate(lines)]
    notes = [f"{row}: cannot be run here: {message}" for row, message in found.refused.items()]
    notes += [f"{run}: failed, not in the table: {message}" for run, message in found.failed.items()]
    notes += [f"{row}: not started" for row in found.waiting]
    behind = {line.method: line.seeds for line in lines if line.seeds < found.planned_seeds[line.method]}
    notes += [f"{row}: {n} of {found.planned_seeds[row]} seeds so far" for row, n in behind.items()]
    if any(not math.isnan(line.p) for line in lines):
        notes.append("p: Wilcoxon signed-rank over (seed, client) against the first row, Holm-corrected.")
    costs = [_cost(line) for line in found.lines if line.main]
    return [
        Table(
            f"{heading}: accuracy (%)", ACCURACY, rows, names=2, notes=notes, bold=_best_cells(lines, modes)
        ),
        Table(f"{heading}: cost (parameters, all clients)", COST, costs),
    ]


def check_modes(modes: str, chosen: Sequence[str]) -> None:
    """Whether these methods have the prediction modes that a table shall show."""
    if modes in ("all", "main"):
        return
    known = {mode for name in chosen for mode in methods[name]().modes}
    for mode in modes.split("+"):
        check_mode(mode, known, "--modes")


def shown(line: Line, modes: str) -> bool:
    """Whether a table with these prediction modes has this line."""
    return modes == "all" or (line.main if modes == "main" else line.mode in modes.split("+"))


def _accuracy(line: Line, first: bool) -> list[str]:
    return [
        line.method if first else "",
        title(line.mode),
        with_spread(line.last, line.last_std_clients),
        number(line.last_std_seeds),
        with_spread(line.best, line.best_std_seeds) + (f" ({line.best_rounds})" if line.best_rounds else ""),
        number(line.worst_client),
        number(line.converged, 0),
        "" if math.isnan(line.gap) else number(line.gap, sign=True),
        "" if math.isnan(line.p_holm) else number(line.p_holm, 3),
    ]


def _cost(line: Line) -> list[str]:
    done, planned = line.rounds, line.planned_rounds
    return [
        line.method,
        str(done) if done == planned else f"{done} of {planned}",
        number(line.up_params, 0),
        number(line.down_params, 0),
        number(line.bytes / 1e6),
        number(line.seconds, 1),
    ]


def _best_cells(lines: Sequence[Line], modes: str) -> frozenset[tuple[int, int]]:
    """The highest last and best accuracy among the compared lines."""
    mains = [(i, line) for i, line in enumerate(lines) if compared(line, modes) and not math.isnan(line.last)]
    if not mains:
        return frozenset()
    last = max(mains, key=lambda pair: pair[1].last)[0]
    best = max(mains, key=lambda pair: pair[1].best)[0]
    return frozenset({(last, 2), (best, 4)})
