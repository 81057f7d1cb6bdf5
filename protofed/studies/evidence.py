"""What a cell's number rests on, run by run and client by client: the pairs by which rows are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..runs.outcome import Outcome
from .measures import ACCURACIES
from .recipe import About, Column
from .statistics import mean

Named = Mapping[str, float]  # "seed 0, client 3" → number


@dataclass(frozen=True)
class Evidence:
    """Values by run and client (by run alone, where clients have none), and how far each is from the middle
    of what the cell's ± is over. Empty for what is computed without runs."""

    values: Named = field(default_factory=dict)
    deviations: Named = field(default_factory=dict)


NONE = Evidence()


def evidence_of(
    about: About,
    column: Column,
    mode: str,
    by_seed: Sequence[Sequence[Outcome]],
    values: Sequence[Sequence[float]],
    named: Mapping[Path, str],
) -> Evidence:
    """Of a cell whose runs gave `values`; names of runs and clients are the same for every row."""
    runs = [run for of_seed in by_seed for run in of_seed]
    by_run = {named[run.path]: value for run, value in zip(runs, (v for some in values for v in some))}
    by_client = {named[run.path]: _clients(run, about, column, mode) for run in runs}
    flat = {f"{run}, client {client}": v for run, some in by_client.items() for client, v in some.items()}
    if about.spread == "clients":
        middle = {run: mean(list(some.values())) for run, some in by_client.items()}
        far = {
            f"{run}, client {client}": abs(v - middle[run])
            for run, some in by_client.items()
            for client, v in some.items()
        }
    else:
        over = about.spread == "over" or column.over
        groups = [mean(some) if over else mean(list(by_run.values())) for some in values for _ in some]
        far = {run: abs(value - group) for (run, value), group in zip(by_run.items(), groups)}
    return Evidence(flat or by_run, far)


def _clients(run: Outcome, about: About, column: Column, mode: str) -> dict[int, float]:
    """Accuracy of every client in the round that is reported; empty for what clients do not have."""
    measure = column.measure or about.measure
    if measure not in ACCURACIES or column.client is not None:
        return {}
    if column.round is not None:
        run = run.until(column.round)
    return run.clients(mode, run.best(mode, about.accuracy)[1] if measure == "best" else None)
