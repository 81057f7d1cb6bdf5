"""Cells of earlier calls, in the outcome beside a page: a table that takes days is run part by part.

A cell is kept whole, with the values of its runs and clients, so that a claim can be judged between rows that
were run on different days. It counts as long as the recipe, with the settings that are given, still plans the
same runs for it.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.checksums import digest
from ..core.errors import ConfigError, RunError
from ..runs.files import read_json
from .cells import Cell
from .evidence import Evidence
from .likeness import Training
from .reproduce import CellPlan

log = logging.getLogger(__name__)
DIGITS = 6
Named = tuple[str, str]  # row, column


def marks(plans: Sequence[CellPlan]) -> dict[Named, str]:
    """What each cell rests on: the keys of its runs."""
    return {(plan.row.name, plan.column.name): _mark(plan) for plan in plans}


def _mark(plan: CellPlan) -> str:
    return digest(repr(sorted(planned.key for planned in plan.runs)).encode())[:12]


def with_earlier(found: Sequence[Cell], known: Mapping[Named, str], path: Path) -> list[Cell]:
    """The cells of a whole recipe, `known` by their marks; what this call did not finish is taken from the
    outcome in `path`."""
    there = _read(path)
    earlier = {_name(cell): cell for cell, mark in there if known.get(_name(cell)) == mark}
    finished = [cell.complete and not math.isnan(cell.ours) for cell in found]
    shown = [cell if done else earlier.get(_name(cell), cell) for cell, done in zip(found, finished)]
    gone = {_name(cell) for cell, _ in there} - {_name(cell) for cell in shown if not math.isnan(cell.ours)}
    if gone:
        names = "; ".join(", ".join(name) for name in sorted(gone)[:3])
        about = "are of other settings or another recipe, and are left out"
        log.warning("%s: %d of its cells %s (%s)", path, len(gone), about, names)
    return shown


def _name(cell: Cell) -> Named:
    return cell.row, cell.column


def kept(cell: Cell, mark: str, spreads: bool) -> dict[str, Any]:
    """As it is written; how far values lie from their middle only where a claim is about a spread."""
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


def _read(path: Path) -> list[tuple[Cell, str]]:
    if not path.exists():
        return []
    try:
        return [_cell(row) for row in read_json(path)["cells"] if "mark" in row]
    except (KeyError, TypeError, ValueError, RunError) as error:
        raise ConfigError(f"--publish: {path} holds no outcome of a reproduction: {error}") from error


def _cell(row: Mapping[str, Any]) -> tuple[Cell, str]:
    values: dict[str, Any] = {key: _number(value) for key, value in row.items() if key != "mark"}
    settings, steps, data = values["training"]
    values["training"] = Training(settings, _number(steps), data)
    values["evidence"] = Evidence(**values["evidence"])
    values["ran"] = tuple(values["ran"])
    return Cell(**values), row["mark"]


def _number(value: Any) -> Any:
    """JSON knows no NaN: it was written as null."""
    return math.nan if value is None else value
