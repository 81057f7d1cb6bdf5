"""Whether rows of a table were trained alike: on the same data, with as many steps of the same size.

A method that trains longer, or on other samples, is not better for it. What is unequal is listed under a
table, and no claim is judged across it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..runs.contents import DATA, SPLIT
from ..runs.outcome import Outcome
from .statistics import mean


class Training(NamedTuple):
    """How the runs of a row were trained. What is not known is "" or NaN, and unequal to nothing."""

    batch_size: str = ""
    epochs: str = ""
    steps: float = math.nan  # of a client in a round
    data: str = ""


WORDS = {"batch_size": "batch size", "epochs": "epochs", "steps": "local steps", "data": "data"}


def training_of(runs: Sequence[Outcome]) -> Training:
    """Of the runs of one row or cell."""
    trains = [run.config.get("train", {}) for run in runs]
    return Training(
        _joined([str(train.get("batch_size", "")) for train in trains]),
        _joined([str(train.get("epochs", "")) for train in trains]),
        mean([run.local_steps for run in runs]),
        _joined([f"{run.seed} {data_of(run)}" for run in runs]),
    )


def data_of(run: Outcome) -> str:
    """The samples of a run and who has them: by content, or as written where that is not known."""
    found = run.about.fingerprints
    if DATA in found:
        return f"{found[DATA]} {found.get(SPLIT, '')}"
    return ", ".join(str(run.config.get(name)) for name in ("data", "partition", "clients"))


def different(one: Training, two: Training) -> list[str]:
    """In what two rows are unequal."""
    found = [
        name for name in ("batch_size", "epochs", "data") if len({getattr(one, name), getattr(two, name)}) > 1
    ]
    if abs(one.steps - two.steps) > 0.05:  # NaN: not known
        found.append("steps")
    return [WORDS[name] for name in WORDS if name in found]


def unequal(rows: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """A line for each thing in which rows differ, with whose value is what. Rows are compared as far as all
    of them came."""
    rows = {row: runs for row, runs in rows.items() if runs}
    if len(rows) < 2:
        return []
    least = min(run.rounds for runs in rows.values() for run in runs)
    seeds = set.intersection(*({run.seed for run in runs} for runs in rows.values()))
    alike = {
        row: training_of([run.until(least) for run in runs if run.seed in seeds or not seeds])
        for row, runs in rows.items()
    }
    first = next(iter(alike.values()))
    names = {name for one in alike.values() for name in different(first, one)}
    values = {
        "batch size": {row: one.batch_size for row, one in alike.items()},
        "epochs": {row: one.epochs for row, one in alike.items()},
        "local steps": {row: f"{one.steps:.1f} of a client in a round" for row, one in alike.items()},
        "data": {row: _written(runs[0]) for row, runs in rows.items()},
    }
    return [_line(name, values[name]) for name in values if name in names]


def _written(run: Outcome) -> str:
    """Data as written, with the beginning of its fingerprints: one path may have held several."""
    config, found = run.config, run.about.fingerprints
    text = f"{config.get('data')}, {config.get('partition')}, {config.get('clients')} clients"
    marks = [found[name][:6] for name in (DATA, SPLIT) if name in found]
    return f"{text} [{' '.join(marks)}]" if marks else text


def _line(name: str, values: Mapping[str, str]) -> str:
    rows: dict[str, list[str]] = {}
    for row, value in values.items():
        rows.setdefault(value, []).append(row)
    return f"unequal {name}: " + "; ".join(f"{value} ({', '.join(who)})" for value, who in rows.items())


def _joined(values: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(values))
