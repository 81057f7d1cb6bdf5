"""Measures that need a run's models, kept beside the run in measures.json by round.

At the last round they are taken from the last checkpoint, whenever a table asks for them. At earlier rounds
they are taken while the run goes on (`Look`), since only the last checkpoint is kept: a run that was
carried out without looking has none.

MMD and FFD compare with other runs of the same setting: with the features of centralized training, and
with the MMD of a baseline (ProtoMargin, Eq. 16 and 17). MMD is taken over the last round's participants.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .. import experiment as experiments
from ..analysis.prototype_margins import margin_ratio
from ..analysis.run_metrics import (
    aggregate_mean_margin,
    gradient_dissimilarity,
    mean_mmd,
    prototype_distance,
)
from ..analysis.training_fit import aggregate_loss, train_error
from ..engines.federation import MOST_KEPT
from ..experiment import Experiment
from ..metrics.formulas import ffd
from ..runs.directory import RunDir
from ..runs.outcome import Outcome
from ..runs.seals import read_whole, there, write_whole

log = logging.getLogger("protofed")
ALONE: dict[str, Callable[[Experiment], float]] = {
    "proto_distance": prototype_distance,
    "amm": aggregate_mean_margin,
    "gradients": gradient_dissimilarity,
    "margin_ratio": margin_ratio,
    "aggregate_loss": aggregate_loss,
    "train_error": train_error,
}
COMPARING = ("mmd", "ffd")  # with other runs
MODEL_MEASURES = (*ALONE, *COMPARING)


@dataclass(frozen=True)
class Look:
    """A measure to be taken while a run goes on."""

    round: int
    measure: str


def measured(path: Path, round: int, measure: str, reference: Path | None, baseline: Path | None) -> float:
    """A measure of a run at a round; NaN if it was not taken then and can no more be."""
    if measure == "ffd":
        pair = [measured(p, round, "mmd", reference, None) for p in (path, baseline) if p is not None]
        return ffd(*pair) if len(pair) == 2 else math.nan
    known = _read(path)
    name = _name(measure, reference)
    if name not in known.get(str(round), {}):
        if not _ready(measure, reference) or Outcome.read(path).rounds != round:
            return math.nan
        run = _open(path)
        try:
            keep(run, path, measure, reference)
        finally:
            run.federation.engine.close()
        known = _read(path)
    value = known.get(str(round), {}).get(name)  # none: the last checkpoint is older than the last line
    return math.nan if value is None else float(value)


def keep(run: Experiment, path: Path, measure: str, reference: Path | None) -> None:
    """Take a measure of a run as it stands and write it down; none while its reference is unfinished."""
    if not _ready(measure, reference):
        return
    value = ALONE[measure](run) if measure in ALONE else _mmd(run, path, reference)
    if value is None:
        return
    known, round = _read(path), str(run.federation.round)
    at_round = {**known.get(round, {}), _name(measure, reference): value}
    write_whole(path, "measures.json", {**known, round: at_round})


def _mmd(run: Experiment, path: Path, reference: Path | None) -> float | None:
    """None, with a warning, if the round did not keep who took part."""
    assert reference is not None
    participants = Outcome.read(path).participants(run.federation.round)
    if participants is None:
        log.warning(
            "%s: no MMD: round %d does not tell who took part (an earlier version played it, or they were "
            "more than %d); run it anew",
            path,
            run.federation.round,
            MOST_KEPT,
        )
        return None
    central = _open(reference)
    try:
        return mean_mmd(run, central, participants)
    finally:
        central.federation.engine.close()


def _ready(measure: str, reference: Path | None) -> bool:
    """Whether the run that is compared with is there, and finished."""
    return measure in ALONE or (reference is not None and (reference / "summary.json").exists())


def _name(measure: str, reference: Path | None) -> str:
    return measure if measure in ALONE or reference is None else f"{measure} {reference.name}"


def _read(path: Path) -> dict[str, dict[str, float | None]]:
    found = read_whole(path, "measures.json") if there(path, "measures.json") else {}
    return {round: values for round, values in found.items() if isinstance(values, dict)}


def _open(path: Path) -> Experiment:
    return experiments.reopen(RunDir.open(path))
