"""Plots of sweeps and of recipes that are figures; matplotlib, extra `report`, loaded when needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError, RunError
from .cells import Cell
from .compare import Line
from .recipe import Recipe

MOST_ACROSS = 3  # panels side by side
AXES = {
    "train_loss": "training loss", "last_loss": "training loss", "test_loss": "test loss",
    "proto_distance": "prototype distance",
    "amm": "AMM", "gradients": "gradient dissimilarity", "mmd": "MMD", "ffd": "FFD (%)",
    "margin_ratio": "global margin / largest at a client",
}  # fmt: skip
Points = Sequence[tuple[Mapping[str, str], Line]]  # values of the swept names, and what they gave


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def check_sweep_plot(path: Path, names: int) -> None:
    """What would keep a plot from being drawn, said before the runs."""
    if not 1 <= names <= 2:
        raise ConfigError(f"plot: one or two swept names can be drawn, got {names}")
    if not can_draw():
        raise ConfigError("plot: needs matplotlib: pip install 'protofed[report]'")
    from matplotlib.figure import Figure

    kinds = Figure().canvas.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in kinds:
        raise ConfigError(f"plot {path}: unknown kind of file; known: {', '.join(sorted(kinds))}")


def draw_recipe(recipe: Recipe, cells: Sequence[Cell], path: Path) -> Path:
    """One curve per row over the columns that have a position; panels as the recipe says."""
    by_name = {(cell.row, cell.column): cell for cell in cells}
    drawn = {cell.column for cell in cells}
    placed = [column for column in recipe.columns if column.x is not None and column.name in drawn]
    kinds = list(dict.fromkeys((c.panel, c.measure or recipe.about.measure) for c in placed))
    figure, panels = _figure(max(1, len(kinds)))
    for panel, kind in zip(panels, kinds):
        columns = [c for c in placed if (c.panel, c.measure or recipe.about.measure) == kind]
        for row in recipe.rows:
            found = [(c.x, by_name.get((row.name, c.name))) for c in columns]
            shown = [(x, cell.ours) for x, cell in found if cell and not math.isnan(cell.ours)]
            if shown:
                panel.plot(*_columns(shown), marker="o", label=row.name)
        panel.set_title(kind[0])
        panel.set_xlabel(recipe.about.x)
        panel.set_ylabel(AXES.get(kind[1], "accuracy (%)"))
        if panel.lines:
            panel.legend()
    return _save(figure, path)


def draw_sweep(points: Points, path: Path) -> Path:
    """One name: a curve (or marks, if its values are no numbers). Two: a map of the main mode, or of the
    only one that is given; points instead, where a search has left most combinations out."""
    names = list(points[0][0]) if points else []
    check_sweep_plot(path, len(names))
    figure, (panel, *_) = _figure(1)
    if len(names) == 1:
        _curve(panel, points, names[0])
    else:
        shown = [p for p in points if p[1].main] or [p for p in points if p[1].mode == points[0][1].mode]
        combinations = math.prod(len({values[name] for values, _ in shown}) for name in names)
        numeric = all(_is_number(values[name]) for values, _ in shown for name in names)
        (_scatter if numeric and len(shown) < combinations else _map)(figure, panel, shown, names)
    return _save(figure, path)


def _curve(panel: Any, points: Points, name: str) -> None:
    numeric = all(_is_number(values[name]) for values, _ in points)
    for mode in dict.fromkeys(line.mode for _, line in points):
        of_mode = [(values[name], line) for values, line in points if line.mode == mode]
        if numeric:
            of_mode.sort(key=lambda pair: float(pair[0]))
        x = [float(value) if numeric else value for value, _ in of_mode]
        spread = [0.0 if math.isnan(line.last_std_seeds) else line.last_std_seeds for _, line in of_mode]
        main = of_mode[0][1].main
        panel.errorbar(
            x,
            [line.last for _, line in of_mode],
            spread,
            label=mode,
            marker="o",
            linestyle="-" if numeric else "none",
            alpha=1.0 if main else 0.5,
            capsize=3,
        )
    if numeric and _wide([float(values[name]) for values, _ in points]):
        panel.set_xscale("log")
    panel.set_xlabel(name)
    panel.set_ylabel("accuracy, last round (%)")
    panel.legend()


def _map(figure: Any, panel: Any, points: Points, names: Sequence[str]) -> None:
    across, down = ([*dict.fromkeys(values[name] for values, _ in points)] for name in names)
    grid = [[math.nan] * len(across) for _ in down]
    for values, line in points:
        grid[down.index(values[names[1]])][across.index(values[names[0]])] = line.last
    image = panel.imshow(grid, aspect="auto")
    paper = {"boxstyle": "round", "facecolor": "white", "alpha": 0.8, "linewidth": 0}
    for i, row in enumerate(grid):
        for j, value in enumerate(row):
            if not math.isnan(value):
                panel.text(j, i, f"{value:.1f}", ha="center", va="center", bbox=paper)
    panel.set_xticks(range(len(across)), across)
    panel.set_yticks(range(len(down)), down)
    panel.set_xlabel(names[0])
    panel.set_ylabel(names[1])
    figure.colorbar(image, label="accuracy, last round (%)")


def _scatter(figure: Any, panel: Any, points: Points, names: Sequence[str]) -> None:
    x, y = ([float(values[name]) for values, _ in points] for name in names)
    marks = panel.scatter(x, y, c=[line.last for _, line in points], s=80, edgecolors="black")
    for axis, name, numbers in (("x", names[0], x), ("y", names[1], y)):
        panel.set(**{f"{axis}label": name, f"{axis}scale": "log" if _wide(numbers) else "linear"})
    figure.colorbar(marks, label="accuracy, last round (%)")


def _figure(panels: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    across = min(panels, MOST_ACROSS)
    down = -(-panels // across)
    figure = Figure(figsize=(5.5 * across, 4 * down), layout="constrained")
    places = list(figure.subplots(down, across, squeeze=False).flat)
    for empty in places[panels:]:
        empty.remove()
    return figure, places[:panels]


def _save(figure: Any, path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _columns(pairs: Sequence[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _wide(values: Sequence[float]) -> bool:
    """Positive values over two powers of ten."""
    return min(values) > 0 and max(values) / min(values) >= 100
