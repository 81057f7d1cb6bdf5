"""Charts as plain data. What a chart shows is decided once, here and in the modules that make charts;
`paper` draws it with matplotlib, the scripts in page/ draw it in the page. Neither knows what it is about.

    lines    y against x; with `steps` a histogram
    bars     names on x: upright, side by side; names on y: lying, one series after the other
    points   marks at places; on axes of names also boxes (`box`) and bubbles (`sizes`)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

Values = Sequence[Any]  # numbers, or None where nothing is known
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "down")
DASHES = ((), (7, 3), (2, 3), (9, 3, 2, 3), (12, 4), (4, 2))


@dataclass(frozen=True, kw_only=True)
class Shown:
    """When something is shown: unless its `group` is hidden, and under these choices of the page's bar
    ("" is the first of them); none given: always. On paper: under the first choice."""

    group: int | None = None
    when: tuple[str, ...] = ()


@dataclass(frozen=True)
class Name(Shown):
    """A place on an axis of names; `about` are further columns of its row in the table."""

    label: str
    about: Mapping[str, Any] | None = None
    colour: str = ""


@dataclass(frozen=True)
class Axis:
    """`low` and `high` are limits that the axis never leaves; with `zero` it begins at 0. With `names`,
    places are indexes into them, fractions set marks beside the middle; `over`: names over their rows."""

    name: str = ""
    format: Literal["plain", "bytes", "seconds"] = "plain"
    log: bool = False
    whole: bool = False
    zero: bool = False
    low: float | None = None
    high: float | None = None
    names: Sequence[Name] = ()
    over: bool = False


@dataclass(frozen=True)
class Series(Shown):
    """Marks that belong together. In `bars`, a series with a shape is one of marks on the bars.

    `level`: a line across the chart instead of x and y, for comparison, with `note` on it.
    `spread`: from `low` to `high` as a band, a band if the reader asks, or bars of error.
    `fields`: of each mark; shown by it, and what `colour_by` chooses from. `labels`: field written beside it.
    `single`: one of several that another series sums up; drawn when the reader asks, on the page only.
    `box`: minimum, quartiles, maximum and mean by name. `shade`: a value as colour, on paper only.
    """

    label: str = ""
    x: Values = ()
    y: Values = ()
    colour: str = ""
    shape: str = ""
    dash: tuple[int, ...] = ()
    opacity: float = 1.0
    level: float | None = None
    note: str = ""
    spread: Literal["", "band", "asked", "error"] = ""
    low: Values = ()
    high: Values = ()
    sizes: Values = ()
    size: float = 3.4
    outline: float = 0.0
    fields: Mapping[str, Values] | None = None
    labels: str = ""
    box: Mapping[str, float] | None = None
    single: bool = False
    shade: Values = ()


@dataclass(frozen=True)
class Chart(Shown):
    """One drawing. `name` is the file's name on paper. Charts of one `title` share a card of the page, where
    `text` explains them; side by side, each stands under its `panel`. `note` is a remark, on paper too.

    `colour` is that of series without their own; `colour_by` names fields whose values give the colour,
    `names` what the numbers in a field stand for. `sized` says what sizes count, `shaded` what shades mean.
    `bare`: no axes, and one scale for both directions. `row`: height of a row of an axis of names.
    """

    kind: Literal["lines", "bars", "points"]
    name: str
    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    text: str = ""
    note: str = ""
    panel: str = ""
    wide: bool = False
    colour: str = ""
    steps: bool = False
    bare: bool = False
    row: int = 30
    sized: str = ""
    shaded: str = ""
    colour_by: tuple[str, ...] = ()
    names: Mapping[str, Sequence[str]] | None = None


def look(i: int) -> dict[str, Any]:
    """Colour, shape and dashes of the i-th of several: never by colour alone."""
    return {"colour": f"r{i % 7}", "shape": SHAPES[i % len(SHAPES)], "dash": DASHES[i % len(DASHES)]}


def first_shown(things: Sequence[Any]) -> list[int]:
    """Positions of what is shown before any choice."""
    return [i for i, thing in enumerate(things) if not thing.when or "" in thing.when]


def plain(part: Any) -> Any:
    """The same for JSON: numbers with six digits; what is empty is left out."""
    if is_dataclass(part):
        part = {field.name: getattr(part, field.name) for field in fields(part)}
        return {key: plain(value) for key, value in part.items() if not _empty(value)}
    if isinstance(part, Mapping):
        return {key: plain(value) for key, value in part.items()}
    if isinstance(part, list | tuple | range):
        return [plain(value) for value in part]
    return float(f"{part:.6g}") if isinstance(part, float) else part


def _empty(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | list | tuple) and not value)
