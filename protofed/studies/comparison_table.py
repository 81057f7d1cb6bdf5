"""The tables of a comparison: accuracy and cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..config import Config
from ..core.algorithm import methods
from ..runs.modes import check_mode, title
from .compare import Comparison, Line
from .footnotes import finding_notes, level_note, marked
from .tables import Table, number, with_spread

ACCURACY = (
    "method", "prediction", "last ± clients", "± seeds", "best ± seeds (round)", "worst", "converged",
    "Δ", "p",
)  # fmt: skip
COST = ("method", "rounds", "local steps", "up a round", "down a round", "MB a run", "seconds a run")
BALANCED = "balanced: every client's model on the same test of all classes alike, in the last round."
STEPS = ("local steps: of a client in a round, on average.",)


def heading(configs: Sequence[Config]) -> str:
    """What all runs of a comparison share: data, partition and, if it is one, the models."""
    models = list(dict.fromkeys(config.models for config in configs))
    shared = models[0] if len(models) == 1 else f"{len(models)} kinds of models"
    return f"{configs[0].data}, {configs[0].partition}, {shared}"


def comparison_tables(found: Comparison, heading: str, modes: str = "all") -> list[Table]:
    """Accuracy and cost. `modes`: "all", "main", or names joined by "+"."""
    lines = [line for line in found.lines if shown(line, modes)]
    firsts = {line.method: i for i, line in reversed(list(enumerate(lines)))}
    rows = [_accuracy(line, firsts[line.method] == i) for i, line in enumerate(lines)]
    notes = [
        *level_note("majority class", ((line.majority, line.method) for line in lines)),
        *level_note("chance", ((line.chance, title(line.mode)) for line in lines)),
        *finding_notes((line.method, title(line.mode), line.findings) for line in lines),
    ]
    headings: tuple[str, ...] = ACCURACY
    if any(not math.isnan(line.balanced) for line in lines):
        notes.append(BALANCED)
        headings = (*ACCURACY[:6], "balanced", *ACCURACY[6:])
        rows = [[*row[:6], number(line.balanced), *row[6:]] for row, line in zip(rows, lines)]
    notes += [f"{row}: cannot be run here: {message}" for row, message in found.refused.items()]
    notes += [f"{run}: failed, not in the table: {message}" for run, message in found.failed.items()]
    notes += [f"{row}: not started" for row in found.waiting]
    behind = {line.method: line.seeds for line in lines if line.seeds < found.planned_seeds[line.method]}
    notes += [f"{row}: {n} of {found.planned_seeds[row]} seeds so far" for row, n in behind.items()]
    notes += [*_about_gaps(lines, bool(found.unequal)), *found.unequal, *found.remarks]
    costs = [_cost(line) for line in found.lines if line.main]
    return [
        Table(f"{heading}: accuracy (%)", headings, rows, names=2, notes=notes, bold=_best_cells(lines)),
        Table(f"{heading}: cost (parameters, all clients)", COST, costs, notes=STEPS),
    ]


def _about_gaps(lines: Sequence[Line], unlike: bool) -> list[str]:
    """What Δ and p mean here, and where there are none."""
    if len({line.method for line in lines}) < 2:
        return []
    first, found = lines[0].method, []
    if any(not math.isnan(line.gap) for line in lines):
        found.append(f"Δ: to {first} in the same prediction; methods are ranked within one prediction only.")
    if any(not math.isnan(line.p) for line in lines):
        found.append(
            "p: Wilcoxon signed-rank over (seed, client), Holm-corrected over the methods of a prediction."
        )
    own = {line.mode for line in lines if line.method == first}
    if others := list(dict.fromkeys(title(line.mode) for line in lines if line.mode not in own)):
        found.append(f"no Δ for {', '.join(others)}: {first} has no such prediction here")
    without = [line for line in lines if line.method != first and line.mode in own and math.isnan(line.gap)]
    if unlike and without:
        names = ", ".join(dict.fromkeys(line.method for line in without))
        found.append(f"no Δ or p for {names}: not trained as {first} was, see below")
    return found


def check_modes(modes: str, chosen: Sequence[str]) -> None:
    """Whether these methods have the prediction modes that a table shall show."""
    if modes in ("all", "main"):
        return
    known = {mode for name in chosen for mode in methods[name]().modes}
    for mode in modes.split("+"):
        check_mode(mode, known, "--modes")


def shown(line: Line, modes: str) -> bool:
    """Whether a table with these prediction modes has this line."""
    return modes == "all" or (line.main if modes == "main" else line.mode in modes.split("+"))


def _accuracy(line: Line, first: bool) -> list[str]:
    return [
        line.method if first else "",
        title(line.mode),
        marked(with_spread(line.last, line.last_std_clients), line.findings),
        number(line.last_std_seeds),
        with_spread(line.best, line.best_std_seeds) + (f" ({line.best_rounds})" if line.best_rounds else ""),
        number(line.worst_client),
        number(line.converged, 0),
        "" if math.isnan(line.gap) else number(line.gap, sign=True),
        "" if math.isnan(line.p_holm) else number(line.p_holm, 3),
    ]


def _cost(line: Line) -> list[str]:
    done, planned = line.rounds, line.planned_rounds
    return [
        line.method,
        str(done) if done == planned else f"{done} of {planned}",
        number(line.steps, 1),
        number(line.up_params, 0),
        number(line.down_params, 0),
        number(line.bytes / 1e6),
        number(line.seconds, 1),
    ]


def _best_cells(lines: Sequence[Line]) -> frozenset[tuple[int, int]]:
    """The highest last and best accuracy of each prediction that several methods have; what a finding spoils
    is never the best."""
    found = set()
    for mode in {line.mode for line in lines}:
        several = [
            (i, line) for i, line in enumerate(lines) if line.mode == mode and not math.isnan(line.last)
        ]
        rivals = [(i, line) for i, line in several if not line.findings]
        if len(several) > 1 and rivals:
            found.add((max(rivals, key=lambda pair: pair[1].last)[0], 2))
            found.add((max(rivals, key=lambda pair: pair[1].best)[0], 4))
    return frozenset(found)
