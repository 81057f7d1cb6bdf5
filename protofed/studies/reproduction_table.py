"""The outcome of a reproduction: a compact table, a list of all cells, and the claims."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..runs.modes import title
from .cells import AGREES, BETTER, DIFFERS, NO_NUMBER, NOT_COMPARABLE, NOT_MEASURED, NOT_RUN, WORSE, Cell
from .claims import Claim
from .correlation import correlation_note
from .footnotes import finding_notes, level_note, marked
from .likeness import Training, different
from .recipe import Recipe
from .tables import Table, number, with_spread

MARKS = {
    AGREES: "=", BETTER: "↑", WORSE: "↓", DIFFERS: "≠", NOT_COMPARABLE: "≈", NO_NUMBER: "", NOT_RUN: "",
    NOT_MEASURED: "",
}  # fmt: skip
WIDEST = 12  # columns
LEGEND = "ours (paper) difference; = agrees, ↑ better, ↓ worse, ≠ differs, ≈ not comparable"


def compact(recipe: Recipe, cells: Sequence[Cell]) -> Table:
    """Rows and columns as printed; in each cell ours, (the paper's), the difference and a mark."""
    rows = list(dict.fromkeys(cell.row for cell in cells))
    columns = list(dict.fromkeys(cell.column for cell in cells))
    by_name = {(cell.row, cell.column): cell for cell in cells}
    heads, body = columns, [[row, *(_short(by_name[row, c], recipe) for c in columns)] for row in rows]
    if len(columns) > max(WIDEST, len(rows)):  # a figure: its points one below the other
        heads, body = rows, [[c, *(_short(by_name[row, c], recipe) for row in rows)] for c in columns]
    reasons = Counter(cell.why for cell in cells if cell.why and not math.isnan(cell.ours))
    notes = [LEGEND, *_levels(cells), *(f"not comparable: {why}" for why in reasons)]
    notes += _rows_trained(rows, cells)
    notes += finding_notes((cell.row, cell.column, cell.findings) for cell in cells)
    notes += correlation_note(recipe, cells)
    notes += recipe.about.notes if recipe.about.costs else ()  # why a cell cannot be computed
    return Table(f"{recipe.id}: {recipe.about.title}", ["", *heads], body, notes=notes)


def _rows_trained(rows: Sequence[str], cells: Sequence[Cell]) -> list[str]:
    """Prediction and local steps of each row, and in what the rows of a column are unequal."""
    ran = [cell for cell in cells if not math.isnan(cell.ours) and cell.mode]
    if not ran:
        return []
    told = [f"{row} ({_steps([cell for cell in ran if cell.row == row])})" for row in rows]
    firsts = {cell.column: cell.training for cell in reversed(ran)}
    unlike = {word: 0 for cell in ran for word in different(firsts[cell.column], cell.training)}
    lines = [f"prediction, local steps of a client in a round: {', '.join(told)}"]
    if unlike:
        lines += [
            f"unequal between rows: {', '.join(unlike)}; no claim is judged between rows that differ in any"
        ]
    return lines


def _steps(cells: Sequence[Cell]) -> str:
    steps = [cell.training.steps for cell in cells if not math.isnan(cell.training.steps)]
    ends = dict.fromkeys(number(end(steps), 1) for end in (min, max) if steps)
    modes = dict.fromkeys(title(cell.mode) for cell in cells)
    return ", ".join(["/".join(modes) or "not run", "–".join(ends) or "–"])


def _levels(cells: Sequence[Cell]) -> list[str]:
    return [
        *level_note("majority class", ((cell.majority, cell.column) for cell in cells)),
        *level_note("chance", ((cell.chance, cell.row) for cell in cells)),
    ]


def listing(recipe: Recipe, cells: Sequence[Cell]) -> Table:
    """One line per cell, with the reason where it does not compare."""
    digits = recipe.about.digits
    rows = [
        [
            cell.row,
            cell.column,
            marked(with_spread(cell.ours, cell.spread, digits), cell.findings),
            with_spread(cell.paper, cell.paper_spread, digits),
            number(cell.difference, digits, sign=True),
            str(cell.seeds or "–"),
            str(cell.rounds or "–"),
            number(cell.training.steps, 1),
            f"{cell.verdict}: {cell.why}" if cell.why else cell.verdict,
        ]
        for cell in cells
    ]
    heads = ["method", "column", "ours", "paper", "difference", "seeds", "rounds", "local steps", "verdict"]
    return Table("All cells", heads, rows, names=2)


def rounds_table(recipe: Recipe, cells: Sequence[Cell]) -> list[Table]:
    """Rounds as printed beside ours: those that were run, and after how many the accuracy was within half a
    point of its highest moving average; nothing where the paper prints none."""
    printed = recipe.published.get("rounds", {})
    ran = {row: [cell for cell in cells if cell.row == row and cell.rounds] for row in printed}
    rows = [
        [row, _printed_rounds(recipe, own), _ends(own, "rounds"), _ends(own, "converged")]
        for row, own in ran.items()
        if own
    ]
    heads = ["method", "rounds (paper)", "rounds (ours)", "converged after (ours)"]
    return [Table("Rounds", heads, rows)] if rows else []


def _printed_rounds(recipe: Recipe, cells: Sequence[Cell]) -> str:
    found = [recipe.printed_rounds(cell.row, cell.column) for cell in cells]
    return "–".join(dict.fromkeys(number(end(found), 0) for end in (min, max)))


def _ends(cells: Sequence[Cell], name: str) -> str:
    """Least and most over the columns."""
    values = [value for cell in cells if not math.isnan(value := getattr(cell, name))]
    return "–".join(dict.fromkeys(number(end(values), 0) for end in (min, max) if values)) or "–"


def claims_table(claims: Sequence[Claim]) -> Table:
    """What the paper claims about the order of its rows, and whether it holds here."""
    alike: dict[tuple[str, str, str], list[Claim]] = {}
    for claim in claims:  # in one line for all columns where the same can be said
        alike.setdefault((claim.text, claim.verdict, claim.why), []).append(claim)
    rows = [
        [
            text,
            "; ".join(claim.column for claim in some),
            _gaps(some),
            f"{verdict}: {why}" if why else verdict,
        ]
        for (text, verdict, why), some in alike.items()
    ]
    return Table("Claims", ["claim", "column", "by", "here"], rows, names=2)


def _gaps(claims: Sequence[Claim]) -> str:
    """By how much the numbers show the order, as far as they do."""
    return "; ".join("–" if math.isnan(claim.gap) else f"{claim.gap:+.2f}" for claim in claims)


def markdown(recipe: Recipe, cells: Sequence[Cell], claims: Sequence[Claim], command: str, when: str) -> str:
    """The whole report as Markdown."""
    about = recipe.about
    spread = f" ± is over {next(iter(about.over)) if about.spread == 'over' else about.spread}."
    if released := [row.name for row in recipe.rows if row.released_spread and about.spread == "clients"]:
        spread += f" That of {', '.join(released)} is as their released evaluation prints it."
    head = [
        f"# {recipe.id}: {about.title}",
        f"{about.paper}\n",
        f"`{command}`, {when}. {_summary(cells)}{spread if about.spread else ''}",
        *(f"- {note}" for note in about.notes if not about.costs),  # those stand under the table
    ]
    tables = [table.markdown() for table in (compact(recipe, cells), *rounds_table(recipe, cells))]
    tables.append(listing(recipe, cells).markdown())
    if claims:
        tables.append(claims_table(claims).markdown())
    return "\n".join(head) + "\n\n" + "\n".join(tables)


def as_records(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """The cells as plain dictionaries, for CSV and JSON."""
    return [_record(cell) for cell in cells]


def _record(cell: Cell) -> dict[str, Any]:
    record = {**dataclasses.asdict(cell), "ran": "; ".join(cell.ran)}
    trained = Training(*record.pop("training"))
    del record["evidence"]
    shown = {name: trained.settings.get(name, "") for name in ("batch_size", "epochs", "lr", "models")}
    return {**record, **shown, "steps": trained.steps}


def _summary(cells: Sequence[Cell]) -> str:
    counts = Counter(cell.verdict for cell in cells)
    return "Cells: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + "."


def _short(cell: Cell, recipe: Recipe) -> str:
    digits = recipe.about.digits
    printed = f"({number(cell.paper, digits)})"
    if math.isnan(cell.ours):
        return printed
    ours = marked(number(cell.ours, digits), cell.findings)
    if math.isnan(cell.paper):
        return ours
    gap = number(cell.difference, digits, sign=True)
    return f"{ours} {printed} {gap} {MARKS[cell.verdict]}"
