"""Write a study's tables into its directory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.checksums import digest
from ..core.errors import RunError
from ..runs.files import finite, read_json, write_atomic
from .runner import Done
from .tables import Table, as_csv


def study_mark(done: Iterable[Done], *words: str) -> str:
    """What tells the tables of one study from those of another: its runs, whatever became of them so far,
    and how they are shown."""
    runs = sorted(one.found.identity.short if one.found and one.found.identity else "" for one in done)
    return digest(repr((runs, words)).encode())


def own_name(out: Path, name: str, mark: str) -> str:
    """NAME, or NAME-2 and so on where that holds the tables of another study: those are never overwritten."""
    number, found = 1, name
    while (out / f"{found}.json").exists() and _mark_in(out / f"{found}.json") != mark:
        number += 1
        found = f"{name}-{number}"
    return found


def _mark_in(path: Path) -> str | None:
    try:
        found = read_json(path)
    except RunError:  # not ours, or damaged: it stays
        return None
    return found.get("study") if isinstance(found, dict) else None


def runs_of(done: Mapping[str, Done]) -> list[dict[str, Any]]:
    """The runs that the tables rest on."""
    return [
        {
            "row": one.planned.row,
            "seed": one.planned.seed,
            "run": one.path.name,
            "state": one.state,
            "reused": one.reused,
        }
        for one in done.values()
    ]


def write_study(
    out: Path, name: str, markdown: str, records: Sequence[Mapping[str, Any]], more: Mapping[str, Any]
) -> list[Path]:
    """NAME.md, NAME.csv and NAME.json; the records are in the last two."""
    texts = {
        ".md": markdown,
        ".csv": as_csv(records),
        ".json": json.dumps(finite({**more, "rows": [dict(record) for record in records]}), indent=2) + "\n",
    }
    return [write_text(out / f"{name}{suffix}", text) for suffix, text in texts.items()]


def write_latex(out: Path, name: str, tables: Sequence[Table]) -> Path:
    """All tables in NAME.tex."""
    return write_text(out / f"{name}.tex", "\n".join(table.latex() for table in tables))


def write_text(path: Path, text: str) -> Path:
    """Write a file and make its folder; never half of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot create {path.parent}: {error.strerror or error}") from error
    write_atomic(path, text.encode())
    return path
