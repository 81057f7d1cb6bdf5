"""The outcome of a reproduction as a page and a small file beside it, of which docs/results makes its index.

The file holds the cells that have a number, the claims, the command and the date; nothing of the machine.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from ..runs.files import finite
from .cells import Cell
from .claims import Claim, as_claims
from .recipe import Recipe
from .study_files import write_text

KEPT = ("row", "column", "ours", "spread", "paper", "verdict", "why", "seeds", "rounds")
DIGITS = 6


def check_page(path: Path | None) -> None:
    """Refuse what is no place for a page, before anything is run."""
    if path is None:
        return
    if path.suffix != ".md":
        raise ConfigError(f"--publish: {path} must end in .md, as docs/results/fp-t2.md")
    if not path.parent.is_dir():
        raise ConfigError(f"--publish: {path.parent} is not a folder")


def publish(
    path: Path, recipe: Recipe, cells: Sequence[Cell], claims: Sequence[Claim], page: str, command: str
) -> list[Path]:
    """Write the page, and the outcome as .json beside it."""
    found = {
        "recipe": recipe.id,
        "command": command,
        "date": time.strftime("%Y-%m-%d"),
        "cells": [_kept(cell) for cell in cells if not math.isnan(cell.ours)],
        "claims": as_claims(claims),
    }
    text = json.dumps(finite(found), indent=1, ensure_ascii=False) + "\n"
    return [write_text(path, page), write_text(path.with_suffix(".json"), text)]


def _kept(cell: Cell) -> dict[str, Any]:
    values = {name: getattr(cell, name) for name in KEPT}
    return {key: round(v, DIGITS) if isinstance(v, float) else v for key, v in values.items()}
