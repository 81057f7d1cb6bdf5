"""Tables and a small chart as HTML, for notebooks. Text is escaped; nothing is loaded and nothing runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, EDGE = 360, 120, 28
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # told apart by most eyes
Curve = Sequence[tuple[float, float]]  # (round, percent)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> str:
    """A table; the first column names its rows."""
    head = "".join(
        f"<th style='text-align:{_side(i)}'>{escape(text)}</th>" for i, text in enumerate(headings)
    )
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    caption = f"<caption style='text-align:left'>{escape(title)}</caption>" if title else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def chart(curves: Mapping[str, Curve], name: str = "accuracy (%)") -> str:
    """Lines against rounds as one inline SVG; values that were not measured are left out."""
    known = {k: [(x, y) for x, y in curve if not math.isnan(y)] for k, curve in curves.items()}
    points = [point for curve in known.values() for point in curve]
    if not points:
        return ""
    right, top = max(x for x, _ in points), max(y for _, y in points)
    left, low = min(x for x, _ in points), min(0.0, min(y for _, y in points))

    def place(x: float, y: float) -> str:
        across = EDGE + (WIDTH - 2 * EDGE) * ((x - left) / (right - left) if right > left else 0.5)
        up = HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * ((y - low) / (top - low) if top > low else 0.5)
        return f"{across:.1f},{up:.1f}"

    marks, legend = [], []
    for (label, curve), colour in zip(known.items(), COLOURS * len(known)):
        drawn = " ".join(place(x, y) for x, y in curve)
        marks.append(f"<polyline fill='none' stroke='{colour}' stroke-width='1.5' points='{drawn}'/>")
        marks += [_dot(place(*point), colour) for point in curve[-1:]]
        legend.append(f"<span style='color:{colour}'>●</span> {escape(label)}")
    texts = [_text(2, 12, name), _text(2, EDGE + 4, f"{top:.0f}"), _text(2, HEIGHT - EDGE + 4, f"{low:.0f}")]
    texts += [
        _text(EDGE, HEIGHT - 8, f"{left:.0f}"),
        _text(WIDTH - 2 * EDGE, HEIGHT - 8, f"round {right:.0f}"),
    ]
    size = f"viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}'"
    picture = f"<svg {size} role='img' aria-label='{escape(name)}'>{''.join([*marks, *texts])}</svg>"
    return f"<div>{picture}<br>{' &nbsp; '.join(legend)}</div>"


def _dot(place: str, colour: str) -> str:
    x, y = place.split(",")
    return f"<circle cx='{x}' cy='{y}' r='2.5' fill='{colour}'/>"


def _text(x: float, y: float, text: str) -> str:
    return f"<text x='{x}' y='{y}' font-size='10' fill='currentColor'>{escape(text)}</text>"


def _cells(row: Sequence[str]) -> str:
    return "".join(f"<td style='text-align:{_side(i)}'>{escape(cell)}</td>" for i, cell in enumerate(row))


def _side(column: int) -> str:
    return "right" if column else "left"
