"""What the figures of sweeps and of recipes show; drawn by `reports.paper`, extra `report`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ..core.errors import ConfigError
from ..reports import paper
from ..reports.spec import Axis, Chart, Name, Series, look
from .cells import Cell
from .compare import Line
from .recipe import Recipe

AXES = {
    "train_loss": "training loss", "last_loss": "training loss", "test_loss": "test loss",
    "proto_distance": "prototype distance",
    "amm": "AMM", "gradients": "gradient dissimilarity", "mmd": "MMD", "ffd": "FFD (%)",
    "margin_ratio": "global margin / largest at a client",
}  # fmt: skip
LAST = "accuracy, last round (%)"
Points = Sequence[tuple[Mapping[str, str], Line]]  # values of the swept names, and what they gave


def check_sweep_plot(path: Path, names: int) -> None:
    """What would keep a plot from being drawn, said before the runs."""
    if not 1 <= names <= 2:
        raise ConfigError(f"plot: one or two swept names can be drawn, got {names}")
    paper.require("plot")
    known = paper.known_kinds()
    if path.suffix.lstrip(".").lower() not in known:
        raise ConfigError(f"plot {path}: unknown kind of file; known: {', '.join(known)}")


def draw_recipe(recipe: Recipe, cells: Sequence[Cell], path: Path) -> Path:
    """One curve per row over the columns that have a position; panels as the recipe says."""
    by_name = {(cell.row, cell.column): cell for cell in cells}
    drawn = {cell.column for cell in cells}
    placed = [column for column in recipe.columns if column.x is not None and column.name in drawn]
    kinds = list(dict.fromkeys((c.panel, c.measure or recipe.about.measure) for c in placed))
    charts = []
    for kind in kinds:
        columns = [c for c in placed if (c.panel, c.measure or recipe.about.measure) == kind]
        series = []
        for i, row in enumerate(recipe.rows):
            found = [(c.x, by_name.get((row.name, c.name))) for c in columns]
            shown = [(x, cell.ours) for x, cell in found if cell and not math.isnan(cell.ours)]
            if shown:
                series.append(Series(row.name, [x for x, _ in shown], [y for _, y in shown], **look(i)))
        names = {column.name for column in columns}
        series += _levels([(cell.majority, cell.chance) for cell in cells if cell.column in names])
        measure = Axis(AXES.get(kind[1], "accuracy (%)"))
        across = Axis(recipe.about.x, whole=_whole([column.x for column in columns]))
        charts.append(Chart("lines", path.stem, "", across, measure, series, panel=kind[0]))
    return paper.write(charts, [path])[0]


def draw_sweep(points: Points, path: Path, logs: Collection[str] = ()) -> Path:
    """One name: a curve (or marks, if its values are no numbers). Two: a map of the main mode, or of the
    only one that is given; points instead, where a search has left most combinations out. `logs`: names that
    were searched on a logarithmic scale, and are drawn on one."""
    names = list(points[0][0]) if points else []
    check_sweep_plot(path, len(names))
    if len(names) == 1:
        return paper.write([_curve(points, names[0], logs)], [path])[0]
    shown = [p for p in points if p[1].main] or [p for p in points if p[1].mode == points[0][1].mode]
    combinations = math.prod(len({values[name] for values, _ in shown}) for name in names)
    numeric = all(_is_number(values[name]) for values, _ in shown for name in names)
    searched = numeric and len(shown) < combinations
    (across, x), (down, y) = (
        _numbers(shown, name, name in logs) if searched else _names(shown, name) for name in names
    )
    series = [Series("", x, y, shade=[line.last for _, line in shown])]
    found = _levels([(line.majority, line.chance) for _, line in shown])
    note, row = ", ".join(level.note for level in found), 60
    chart = Chart("points", path.stem, "", across, down, series, note=note, shaded=LAST, row=row)
    return paper.write([chart], [path])[0]


def _curve(points: Points, name: str, logs: Collection[str]) -> Chart:
    numeric = all(_is_number(values[name]) for values, _ in points)
    axis, places = _numbers(points, name, name in logs) if numeric else _names(points, name)
    series = []
    for i, mode in enumerate(dict.fromkeys(line.mode for _, line in points)):
        of_mode = [(x, line) for x, (_, line) in zip(places, points) if line.mode == mode]
        of_mode.sort(key=lambda pair: pair[0])
        x, y = [at for at, _ in of_mode], [line.last for _, line in of_mode]
        std = [0.0 if math.isnan(line.last_std_seeds) else line.last_std_seeds for _, line in of_mode]
        low, high = [v - s for v, s in zip(y, std)], [v + s for v, s in zip(y, std)]
        opacity = 1.0 if of_mode[0][1].main else 0.5
        series.append(Series(mode, x, y, opacity=opacity, spread="error", low=low, high=high, **look(i)))
    series += _levels([(line.majority, line.chance) for _, line in points])
    return Chart("lines" if numeric else "points", "sweep", "", axis, Axis(LAST), series)


def _levels(found: Sequence[tuple[float, float]]) -> list[Series]:
    """Majority class and chance as lines across, for comparison; of several values the lowest and highest."""
    series = []
    for i, (name, dash) in enumerate((("majority class", (7, 3)), ("chance", (2, 3)))):
        known = [pair[i] for pair in found if not math.isnan(pair[i])]
        for value in dict.fromkeys(round(end(known), 1) for end in (min, max) if known):
            series.append(Series(name, level=value, note=f"{name} {value:.1f}", colour="soft", dash=dash))
    return series


def _numbers(points: Points, name: str, log: bool) -> tuple[Axis, list[float]]:
    values = [float(values[name]) for values, _ in points]
    log = log or _wide(values)
    return Axis(name, log=log, whole=not log and _whole(values)), values


def _whole(values: Sequence[float | None]) -> bool:
    """Rounds, epochs, clients: no ticks between the numbers."""
    return all(value is not None and float(value).is_integer() for value in values)


def _names(points: Points, name: str) -> tuple[Axis, list[float]]:
    known = list(dict.fromkeys(values[name] for values, _ in points))
    return Axis(name, names=[Name(one) for one in known]), [known.index(values[name]) for values, _ in points]


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _wide(values: Sequence[float]) -> bool:
    """Positive values over two powers of ten."""
    return min(values) > 0 and max(values) / min(values) >= 100
