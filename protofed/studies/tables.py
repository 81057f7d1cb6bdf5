"""A table of text cells, as terminal table, Markdown, CSV and LaTeX (booktabs)."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable
from rich.text import Text

from ..core.escape import csv_cell, latex, markdown, visible

FORMATS = ("terminal", "markdown", "csv", "latex", "json")


@dataclass(frozen=True)
class Table:
    """Rows of text under headings; the first columns are names, the others are numbers."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1  # columns that hold names: left-aligned
    notes: Sequence[str] = ()
    bold: frozenset[tuple[int, int]] = field(default_factory=frozenset)  # (row, column)

    def terminal(self) -> RichTable:
        """For the terminal; long cells are folded."""
        table = RichTable(
            title=Text(visible(self.title)), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
        )
        for number, heading in enumerate(self.headings):
            side = "left" if number < self.names else "right"
            table.add_column(Text(visible(heading)), justify=side, overflow="fold")  # type: ignore[arg-type]
        for i, row in enumerate(self.rows):
            styles = ("bold" if (i, j) in self.bold else "" for j in range(len(row)))
            table.add_row(*(Text(visible(cell), style=style) for cell, style in zip(row, styles)))
        return table

    def markdown(self) -> str:
        """A Markdown table under a heading, the notes below."""

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(map(markdown, cells)) + " |"

        rule = ["---" if n < self.names else "---:" for n in range(len(self.headings))]
        body = [line(row) for row in self._marked("**{}**")]
        notes = [f"\n{markdown(note)}" for note in self.notes]
        return (
            "\n".join([f"### {markdown(self.title)}\n", line(self.headings), line(rule), *body, *notes])
            + "\n"
        )

    def latex(self) -> str:
        """A `tabular` for \\usepackage{booktabs}; the title and the notes are comments."""
        spec = "l" * self.names + "r" * (len(self.headings) - self.names)
        comments = [f"% {visible(text)}" for text in (self.title, *self.notes)]
        plain = [[latex(cell) for cell in row] for row in self.rows]
        for i, j in self.bold:
            plain[i][j] = rf"\textbf{{{plain[i][j]}}}"
        head = " & ".join(latex(h) for h in self.headings) + r" \\"
        body = [" & ".join(row) + r" \\" for row in plain]
        begin, end = rf"\begin{{tabular}}{{{spec}}}", r"\end{tabular}"
        return (
            "\n".join([*comments, begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", end]) + "\n"
        )

    def _marked(self, form: str) -> list[list[str]]:
        return [
            [form.format(cell) if (i, j) in self.bold and cell else cell for j, cell in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]


def as_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Records of plain values, one line each; NaN and None are empty."""
    out = io.StringIO()
    names = list(records[0]) if records else []
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(csv_cell, names))
    for record in records:
        cells = (record.get(name) for name in names)
        writer.writerow("" if _missing(value) else csv_cell(value) for value in cells)
    return out.getvalue()


def number(value: float | None, digits: int = 2, sign: bool = False) -> str:
    """A number with a fixed count of decimals; a dash for None and NaN.

    >>> number(3.14159), number(None), number(2, 1, sign=True)
    ('3.14', '–', '+2.0')
    """
    if value is None or math.isnan(value):
        return "–"
    return f"{round(value, digits) + 0.0:{'+' if sign else ''},.{digits}f}"  # + 0.0: no negative zero


def with_spread(value: float, spread: float, digits: int = 2) -> str:
    """ "97.13 ± 0.30", without the spread where there is none."""
    return (
        number(value, digits) if _missing(spread) else f"{number(value, digits)} ± {number(spread, digits)}"
    )


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
