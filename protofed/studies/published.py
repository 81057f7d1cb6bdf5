"""The outcome of a study as a page; of a reproduction a small file beside it too, of which docs/results makes
its index.

The file holds the cells that have a number, the claims, the commands and the date; nothing of the machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from ..runs.files import finite, read_json
from .claims import as_claims, claims
from .kept_cells import PagePlan, with_earlier, written
from .reproduction_table import markdown
from .runner import Done
from .study_files import write_text


def check_page(path: Path | None) -> None:
    """Refuse what is no place for a page, before anything is run."""
    if path is None:
        return
    if path.suffix != ".md":
        raise ConfigError(f"--publish: {path} must end in .md, as docs/results/fp-t2.md")
    if not path.parent.is_dir():
        raise ConfigError(f"--publish: {path.parent} is not a folder")


def with_section(page: str, name: str, parts: Sequence[str], title: str) -> str:
    """The page with this section anew, or behind what is there; a page that is not there gets a title. Other
    sections and whatever is written outside of them stay."""
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    section = "\n\n".join((begin, *parts, end))
    if begin in page and end in page:
        return page[: page.index(begin)] + section + page[page.index(end) + len(end) :]
    return (page.rstrip() or f"# {title}") + f"\n\n{section}\n"


def page_text(path: Path) -> str:
    """What stands on a page; nothing if there is none."""
    return path.read_text() if path.exists() else ""


def publish(planned: PagePlan, done: Mapping[str, Done], command: str) -> list[Path]:
    """Write the page of the whole recipe, and the outcome as .json beside it: what is chosen and done, and
    what earlier calls left there. Where this call brings nothing, claims are judged anew, and commands and
    date stay."""
    recipe, outcome = planned.recipe, planned.outcome
    found = with_earlier(planned, done)
    shown = [one.cell for one in found]
    judged = claims(recipe, [one.cell for one in found if one.parts])
    spreads = any(order.by == "smaller_spread" for order in recipe.orders)
    rows = [finite(written(one, spreads)) for one in found if one.parts]
    there = read_json(outcome) if outcome.exists() else {}
    commands, when = list(filter(None, there.get("command", "").split("; "))), there.get("date", "")
    if not commands or _measured(rows) != _measured(there.get("cells", [])):
        commands, when = list(dict.fromkeys([*commands, command])), time.strftime("%Y-%m-%d")
    head = {"recipe": recipe.id, "command": "; ".join(commands), "date": when, "claims": as_claims(judged)}
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    text = json.dumps(finite({**head, "cells": []}), indent=1, ensure_ascii=False)
    text = text.replace('"cells": []', f'"cells": [\n{lines}\n]') + "\n"
    page = markdown(recipe, shown, judged, "`, `".join(commands), when)
    return [write_text(outcome.with_suffix(".md"), page), write_text(outcome, text)]


def _measured(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """What was run, and what came of it; not what is printed, or how it is judged."""
    parts = [part for row in rows for part in row.get("parts", [row])]
    return [(part["row"], part["column"], part.get("mark"), part["ours"]) for part in parts]
