"""From what a reader names to runs: a run directory, a folder of a study (`compare`, …), or its JSON file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..core.errors import RunError
from ..runs.files import read_json

SHOWN = ("finished", "paused")  # runs of a study that have rounds; see studies/runner.py


class Named(NamedTuple):
    """A run, and the row of the study to which it belongs; None for a run that was named itself."""

    path: Path
    row: str | None


def named_runs(paths: Sequence[Path]) -> tuple[list[Named], list[str]]:
    """The runs that are meant, and what has to be said about the choice."""
    found: list[Named] = []
    notes: list[str] = []
    for path in paths:
        if (path / "config.json").exists() or not path.exists():
            found.append(Named(path, None))  # what is missing is said where runs are opened
            continue
        runs, said = _of_study(path)
        found += runs
        notes += said
    return found, notes


def _of_study(path: Path) -> tuple[list[Named], list[str]]:
    tables = [path] if path.is_file() else _tables(path)
    if not tables:
        return [Named(path, None)], []
    table = max(tables, key=lambda one: one.stat().st_mtime)
    notes = []
    if len(tables) > 1:
        others = ", ".join(one.name for one in sorted(tables) if one != table)
        notes.append(f"{path} holds several studies: this is {table.name}, the newest (others: {others})")
    listed = _listed(table)
    if listed is None:
        raise RunError(f"{table} is not the file of a study; name a run directory or a study's folder")
    left = [run for run in listed if run["state"] not in SHOWN]
    notes += [f"{run['row']}, seed {run['seed']}: {run['state']}, not shown" for run in left]
    runs = [run for run in listed if run["state"] in SHOWN]
    if not runs:
        raise RunError(f"{table}: none of its runs has begun, so there is nothing to show")
    return [Named(table.parent / "runs" / Path(run["run"]).name, str(run["row"])) for run in runs], notes


def _tables(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.json") if _listed(path) is not None]


def _listed(path: Path) -> list[dict[str, Any]] | None:
    """The runs that the file of a study lists; None if it is none."""
    try:
        found = read_json(path)
    except RunError:
        return None
    runs = found.get("runs") if isinstance(found, dict) else None
    wanted = {"row", "seed", "run", "state"}
    if not isinstance(runs, list) or not all(isinstance(run, dict) and wanted <= run.keys() for run in runs):
        return None
    return runs
