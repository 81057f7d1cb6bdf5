"""What stands under a table of accuracies: what they are to be held against, and which runs collapsed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from ..runs.outcome import Outcome
from .statistics import mean

MARK = "†"


def findings_of(runs: Sequence[Outcome], mode: str) -> str:
    """What spoils the accuracies of some of these runs in a mode, in one line; empty if nothing does."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for finding in run.findings:
            if finding.spoils(mode):
                found.setdefault(finding.kind, []).append(finding.text)
    texts = []
    for said in found.values():
        texts.append(said[0] if len(said) == len(runs) else f"{said[0]} (in {len(said)} of {len(runs)} runs)")
    return "; also: ".join(texts)


def levels_of(runs: Sequence[Outcome], mode: str) -> tuple[float, float]:
    """Share of the majority class and chance, as means over these runs; NaN where one does not know."""
    return mean([run.majority for run in runs]), mean([run.chance(mode) for run in runs])


def marked(cell: str, findings: str) -> str:
    """A cell with the mark of a footnote, if there is something to say."""
    return f"{cell} {MARK}" if findings else cell


def finding_notes(found: Iterable[tuple[str, str, str]]) -> list[str]:
    """Notes from (row, part of the row, findings): each said once for the parts that share it."""
    parts: dict[tuple[str, str], list[str]] = {}
    for row, part, text in found:
        if text:
            parts.setdefault((row, text), []).append(part)
    return [f"{MARK} {row} ({', '.join(names)}): {text}" for (row, text), names in parts.items()]


def run_remarks(rows: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """What must be known of the data, and of runs that were gone on with after a change; with the rows that
    are meant where it is not all. What differs in numbers alone, as between seeds, is said once."""
    found: dict[str, tuple[str, dict[str, None]]] = {}
    for row, runs in rows.items():
        for run in runs:
            changes = (f"seed {run.seed} is not one training: {change}" for change in run.about.changes)
            for text in (*(f"data: {note}" for note in run.about.notes), *changes):
                found.setdefault(re.sub(r"[\d,]+", "#", text), (text, {}))[1][row] = None
    told = (text if len(who) == len(rows) else f"{', '.join(who)}: {text}" for text, who in found.values())
    return list(dict.fromkeys(told))


def level_note(name: str, found: Iterable[tuple[float, str]]) -> list[str]:
    """A note such as "majority class 37.1 %"; where values differ, with the names that they belong to.

    >>> level_note("chance", [(10.0, "clf"), (33.3, "lp"), (10.0, "gp_all")])
    ['chance 10.0 % (clf, gp_all), 33.3 % (lp)']
    """
    names: dict[str, list[str]] = {}
    for value, whose in found:
        if not math.isnan(value):
            names.setdefault(f"{value:.1f} %", []).append(whose)
    if not names:
        return []
    if len(names) == 1:
        return [f"{name} {next(iter(names))}"]
    said = [f"{value} ({', '.join(dict.fromkeys(whose))})" for value, whose in names.items()]
    return [f"{name} {', '.join(said)}"]
