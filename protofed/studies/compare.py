"""Several methods on one setting, and the table that a paper would print.

All methods get the same split, first weights, participants and batches: these are drawn from (seed, …)
alone, and the local training is the same for all (see `plan.common_training`). A method written with a
preset of its own (`fedproto:preset=official`) brings that preset's training, and so its own batches.

Reading the table: accuracy is the mean over clients, then over seeds. "± clients" is the standard deviation
over clients (ddof 0), averaged over seeds; "± seeds" that of the mean over seeds (ddof 1). "best" is the
round with the highest mean. Δ and p compare with the first method in the same prediction mode, at the last
test, over the seeds that both have; see `statistics`. Neither is given where the first method has no such
mode, the rounds differ or the two were not trained alike (`likeness`). In a sweep, where they differ on
purpose, there is no p where the clients hold other data, as over the partition.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..config import Config, resolve
from ..core.algorithm import methods
from ..core.errors import ConfigError
from ..core.options import parse_spec
from ..runs.outcome import Outcome
from .footnotes import findings_of, levels_of, run_remarks
from .likeness import data_of, different, training_of, unequal
from .plan import MethodChoice, Planned, check_no_options, common_training, read_method
from .runner import FAILED, FINISHED, PAUSED, REFUSED, Done
from .statistics import holm, mean, paired_p, sample_std


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
    steps: float = math.nan  # of a client in a round
    gap: float = math.nan  # to the first method in the same mode, in points
    p: float = math.nan
    p_holm: float = math.nan
    majority: float = math.nan  # what the majority class reaches, and chance
    chance: float = math.nan
    findings: str = ""  # what spoils these numbers
    balanced: float = math.nan  # on a test of all classes alike
    validation: float = math.nan  # on what clients hold out of training


@dataclass(frozen=True)
class Comparison:
    """The lines of a table, and what could not be run."""

    lines: list[Line]
    refused: dict[str, str]
    failed: dict[str, str]
    waiting: list[str]
    planned_seeds: dict[str, int]
    unequal: list[str] = field(default_factory=list)  # in what rows were not trained alike
    remarks: list[str] = field(default_factory=list)  # on the data, and runs that changed on their way


def plan_comparison(texts: Sequence[str], settings: Mapping[str, Any], seeds: int) -> list[Planned]:
    """The runs of a comparison. "all" stands for every method that is not named beside it, Local first:
    the one to beat."""
    check_no_options(settings, "fedproto:lam=0.1")
    named = {parse_spec(text)[0] for text in texts}
    every = [name for name in ("local", *methods) if name not in named]
    if twice := [text for text in texts if texts.count(text) > 1]:
        raise ConfigError(f"compare: {twice[0]} is named twice; leave one out")
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


def compare(done: Sequence[Done], varied: Collection[str] | None = None) -> Comparison:
    """Numbers of all rows, from what is on disk. `varied`: settings in which the rows of a sweep differ on
    purpose; then differences are given whatever else follows from them.

    Seeds that are behind the others of their row are left out: an average of different rounds says nothing.
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
    lines = _with_significance(lines, runs, varied is None)
    said = unequal(runs, varied or ())
    return Comparison(lines, refused, failed, waiting, seeds, said, run_remarks(runs))


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
    majority, chance = levels_of(runs, mode)
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
        steps=mean([run.local_steps for run in runs]),
        majority=majority,
        chance=chance,
        findings=findings_of(runs, mode),
        balanced=mean([run.balanced(mode) for run in runs]),
        validation=mean([run.validated(mode) for run in runs]),
    )


def _with_significance(
    lines: Sequence[Line], runs: Mapping[str, Sequence[Outcome]], among_equals: bool
) -> list[Line]:
    """Add gap and p to the lines of all methods but the first, mode by mode."""
    added: dict[tuple[str, str], Line] = {}
    for mode in dict.fromkeys(line.mode for line in lines):
        first = next((one for one in lines if one.method == lines[0].method and one.mode == mode), None)
        others = [line for line in lines if line.mode == mode and line.method != lines[0].method]
        against = [_against(line, first, runs, among_equals) for line in others if first]
        adjusted = holm([p for _, p in against])
        for line, (gap, p), p_holm in zip(others, against, adjusted):
            added[line.method, mode] = replace(line, gap=gap, p=p, p_holm=p_holm)
    return [added.get((line.method, line.mode), line) for line in lines]


def _against(
    line: Line, first: Line, runs: Mapping[str, Sequence[Outcome]], among_equals: bool
) -> tuple[float, float]:
    """Difference and p over the seeds that both have; NaN where they cannot be compared."""
    shared = {run.seed for run in runs[line.method]} & {run.seed for run in runs[first.method]}
    ours, theirs = ([run for run in runs[one.method] if run.seed in shared] for one in (line, first))
    if len({run.rounds for run in (*ours, *theirs)}) != 1:
        return math.nan, math.nan
    if among_equals and different(training_of(ours), training_of(theirs)):
        return math.nan, math.nan
    gap = mean([run.last(line.mode) for run in ours]) - mean([run.last(first.mode) for run in theirs])
    if any(_clients(one) != _clients(two) for one, two in zip(_by_seed(ours), _by_seed(theirs))):
        return gap, math.nan
    return gap, paired_p(_pairs(ours, line.mode), _pairs(theirs, first.mode))


def _by_seed(runs: Sequence[Outcome]) -> list[Outcome]:
    return sorted(runs, key=lambda run: run.seed)


def _clients(run: Outcome) -> tuple[Any, ...]:
    """What decides which samples a client has, and which clients are tested."""
    system, rounds = run.config["system"], run.config["rounds"]
    return data_of(run), rounds.get("newcomers"), system.get("eval_clients")


def _pairs(runs: Sequence[Outcome], mode: str) -> dict[Any, float]:
    return {(run.seed, client): value for run in runs for client, value in run.clients(mode).items()}
