"""Write a study's tables into its directory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import RunError
from ..runs.files import finite, write_atomic
from .tables import Table, as_csv


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
