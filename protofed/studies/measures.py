"""The number of a run that a recipe's cell asks for."""

from __future__ import annotations

import math
from pathlib import Path

from ..runs.outcome import Outcome
from .model_measures import MODEL_MEASURES, measured
from .recipe import About, Column

ACCURACIES = ("last", "best", "smoothed")
LOSSES = ("train_loss", "test_loss")  # means over the last tenth of the rounds
LOWER_IS_BETTER = (
    *LOSSES, "last_loss", "rounds_to", "proto_distance", "gradients", "mmd", "aggregate_loss", "train_error",
)  # fmt: skip


def value_of(
    run: Outcome, mode: str, about: About, column: Column, beside: tuple[Path | None, Path | None]
) -> float:
    """What the column measures; NaN if the run does not have it.

    `beside`: the runs that MMD and FFD compare with: the reference and the baseline.
    """
    measure = column.measure or about.measure
    if column.round is not None:
        if run.rounds < column.round:
            return math.nan
        run = run.until(column.round)
    if measure in MODEL_MEASURES:
        return measured(run.path, run.rounds, measure, *beside)
    if measure in LOSSES:
        return run.smoothed_line(measure)
    if measure == "last_loss":
        return run.last_loss
    if measure == "start":
        return run.start("clf", about.accuracy)  # there are no prototypes yet
    if measure == "rounds_to":
        found = run.reached(mode, column.target or 0, about.accuracy)
        return math.nan if found is None else found
    if column.client is not None:
        round = run.best(mode, about.accuracy)[1] if measure == "best" else None
        return run.clients(mode, round).get(column.client, math.nan)
    if measure == "best":
        return run.best(mode, about.accuracy)[0]
    return run.last(mode, about.accuracy) if measure == "last" else run.smoothed(mode, about.accuracy)


def client_spread(run: Outcome, mode: str, about: About, column: Column, released: bool = False) -> float:
    """Standard deviation over clients in the round that is reported, or what the released evaluation makes of
    it; NaN for what clients do not have."""
    measure = column.measure or about.measure
    if measure not in ACCURACIES:
        return math.nan
    if column.round is not None:
        run = run.until(column.round)
    round = run.best(mode, about.accuracy)[1] if measure == "best" else None
    if released:
        return run.released_spread(mode, round)
    return run.last(mode, "std") if round is None else run.at(round, mode, "std")
