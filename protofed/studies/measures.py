"""The number of a run that a recipe's cell asks for."""

from __future__ import annotations

import math

from .. import experiment
from ..analysis.run_metrics import prototype_distance
from ..runs.directory import RunDir
from ..runs.files import read_json, write_json
from .outcome import Outcome
from .recipe import About, Column

LOWER_IS_BETTER = ("train_loss", "test_loss", "proto_distance")


def value_of(run: Outcome, mode: str, about: About, column: Column) -> float:
    """What the column measures; NaN if the run does not have it."""
    measure = column.measure or about.measure
    if measure == "proto_distance":
        return distance_of(run)
    if measure in LOWER_IS_BETTER:
        return run.smoothed_line(measure)
    if column.client is not None:
        round = run.best(mode, about.accuracy)[1] if measure == "best" else None
        return run.clients(mode, round).get(column.client, math.nan)
    if measure == "best":
        return run.best(mode, about.accuracy)[0]
    return run.last(mode, about.accuracy) if measure == "last" else run.smoothed(mode, about.accuracy)


def client_spread(run: Outcome, mode: str, about: About, column: Column) -> float:
    """Standard deviation over clients in the round that is reported."""
    if (column.measure or about.measure) == "best":
        return run.at(run.best(mode, about.accuracy)[1], mode, "std")
    return run.last(mode, "std")


def distance_of(run: Outcome) -> float:
    """FedProto's prototype distance on test samples, of the last checkpoint; computed once."""
    path = run.path / "measures.json"
    known = read_json(path) if path.exists() else {}
    if known.get("round") != run.rounds:
        reopened = experiment.reopen(RunDir.open(run.path))
        try:
            known = {"round": run.rounds, "proto_distance": prototype_distance(reopened)}
        finally:
            reopened.federation.engine.close()
        write_json(path, known)
    value = known["proto_distance"]
    return math.nan if value is None else float(value)
