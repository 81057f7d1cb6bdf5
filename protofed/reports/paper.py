"""Charts on paper, by matplotlib: PNG, SVG and PDF with text as text.

Width of a column (3.4 inches), small type, colours and dashes that stay apart without colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from math import ceil, inf
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError, RunError
from ..core.escape import visible
from .spec import Axis, Chart, Series, first_shown
from .style import LIGHT, number

COLUMN = 3.4  # inches, one column of a two-column paper
WIDEST = 24.0
LETTER = 0.06  # inches, of a name along an axis
MOST_NAMES = 40  # of them, about
MARKERS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "cross": "P", "down": "v", "": "s"}
STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.4,
    "pdf.fonttype": 42,  # text that publishers can embed and readers can select
    "svg.fonttype": "none",
    "svg.hashsalt": "protofed",
}
Figure = Any  # matplotlib's; its types are not needed without it
Axes = Any


def can_draw() -> bool:
    """Whether matplotlib is there, which is an extra."""
    return find_spec("matplotlib") is not None


def require(what: str) -> None:
    """Name the extra where matplotlib is missing."""
    try:
        import_module("matplotlib")
    except ImportError as error:
        raise ConfigError(f"{what}: needs matplotlib: pip install 'protofed[report]'") from error


def known_kinds() -> list[str]:
    """Endings of files that can be written."""
    from matplotlib.figure import Figure as Canvas

    return sorted(Canvas().canvas.get_supported_filetypes())


def write(charts: Sequence[Chart], paths: Sequence[Path], across: int = 3) -> list[Path]:
    """One figure of charts side by side, in a file for each path; the endings say the kind."""
    matplotlib: Any = import_module("matplotlib")  # whose types name every setting
    with matplotlib.rc_context(STYLE):
        figure = _figure(charts, across)
        for path in paths:
            dated = {"metadata": {"Date": None}} if path.suffix == ".svg" else {}
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                figure.savefig(path, dpi=300, **dated)
            except OSError as error:
                raise RunError(f"cannot write {path}: {error.strerror or error}") from error
    return list(paths)


def _figure(charts: Sequence[Chart], across: int) -> Figure:
    from matplotlib.figure import Figure as Canvas

    across = max(1, min(len(charts), across))
    down = -(-len(charts) // across)
    sizes = [_size(chart) for chart in charts] or [(COLUMN, 2.4)]
    width, height = (max(size[side] for size in sizes) for side in (0, 1))
    figure = Canvas(figsize=(width * across, height * down), layout="constrained")
    panels = []
    for place, chart in enumerate(charts):
        axes = figure.add_subplot(down, across, place + 1)
        _draw(axes, chart)
        axes.set_title(_text(chart.note or (chart.panel if len(charts) > 1 else "")))
        handles, labels = axes.get_legend_handles_labels()
        panels.append((axes, dict(zip(labels, handles))))
    _legends(figure, panels, 2 * across)
    return figure


def _legends(figure: Figure, panels: Sequence[tuple[Axes, dict[str, Any]]], columns: int) -> None:
    """One above all panels if one of them has every name: within, it would hide curves. Else in each."""
    every = {label: handle for _, named in panels for label, handle in named.items()}
    if every and any(len(named) == len(every) for _, named in panels):
        figure.legend(every.values(), every.keys(), loc="outside upper center", ncols=columns)
        return
    for axes, named in panels:
        if named:
            axes.legend()


def _size(chart: Chart) -> tuple[float, float]:
    width = min(WIDEST, max(COLUMN, 0.11 * len(chart.x.names)))
    if chart.y.names:
        return width, max(
            2.4 if chart.shaded else 1.6, 0.7 + 0.0065 * chart.row * len(first_shown(chart.y.names))
        )
    return (COLUMN, COLUMN) if chart.bare else (width, 2.0 if chart.kind == "bars" else 2.4)


def _draw(axes: Axes, chart: Chart) -> None:
    {"lines": _lines, "bars": _bars, "points": _points}[chart.kind](axes, chart)
    for series in _series(chart):
        if series.level is not None:
            line = axes.axvline if chart.y.names else axes.axhline
            look = {"color": LIGHT["soft"], "linestyle": "--", "linewidth": 0.9, **_look(series)}
            line(series.level, **{**look, "label": _text(series.note or series.label)})
    if chart.bare:
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_axis_off()
        return
    for side, axis in (("x", chart.x), ("y", chart.y)):
        _scale(axes, side, axis, _size(chart)[0])


def _scale(axes: Axes, side: str, axis: Axis, width: float) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    axes.set(**{f"{side}label": _text(axis.name)})
    ticks = axes.xaxis if side == "x" else axes.yaxis
    if axis.names:
        names = [_text(axis.names[i].label) for i in first_shown(axis.names)]
        longest = max(map(len, names), default=0)
        crowded = side == "x" and LETTER * (sum(map(len, names)) + 2 * len(names)) > 0.85 * width
        every = max(1, len(names) // MOST_NAMES)
        if crowded and longest <= 3:
            every = ceil(len(names) * LETTER * (longest + 1) / (0.85 * width))
        turned = {"rotation": 90} if crowded and longest > 3 else {}
        ticks.set_ticks(range(0, len(names), every), names[::every], **turned)
        ends = (-0.6, len(names) - 0.4)
        axes.set(**{f"{side}lim": ends if side == "x" else ends[::-1]})  # rows from the top
        return
    if axis.log:
        axes.set(**{f"{side}scale": "log"})
    if axis.format != "plain":
        ticks.set_major_formatter(FuncFormatter(lambda value, _: number(value, axis.format)))
        ticks.set_minor_formatter(NullFormatter())
    if axis.whole:
        ticks.set_major_locator(MaxNLocator(integer=True))
    low, high = axes.get_xlim() if side == "x" else axes.get_ylim()
    if axis.zero:
        low, high = 0.0, high + 0.05 * min(low, high)
    low, high = max(low, -inf if axis.low is None else axis.low), min(high, axis.high or inf)
    axes.set(**{f"{side}lim": (low, high)})


def _series(chart: Chart) -> list[Series]:
    return [chart.series[i] for i in first_shown(chart.series) if not chart.series[i].single]


def _look(series: Series) -> dict[str, Any]:
    look: dict[str, Any] = {"label": _text(series.label)}
    if series.colour:
        look["color"] = LIGHT[series.colour]
    if series.dash:
        look["linestyle"] = (0, tuple(length / 2 for length in series.dash))
    return look


def _text(text: str) -> str:
    """So that matplotlib takes no $ in a name for the start of a formula, and looks for no control characters
    in its fonts."""
    return visible(text, lines=True).replace("$", r"\$")


def _lines(axes: Axes, chart: Chart) -> None:
    for series in _series(chart):
        if series.level is not None:
            continue
        look = {**_look(series), "alpha": series.opacity}
        if chart.steps:
            half = (series.x[1] - series.x[0]) / 2
            axes.stairs(series.y, [*(x - half for x in series.x), series.x[-1] + half], **look)
            continue
        marks = {"marker": MARKERS[series.shape], "markevery": max(1, len(series.x) // 8)}
        if series.spread == "band":
            axes.fill_between(series.x, series.low, series.high, color=look["color"], alpha=0.13, linewidth=0)
        _error(axes, series)
        y = [float("nan") if value is None else value for value in series.y]
        axes.plot(series.x, y, **marks, **look)


def _error(axes: Axes, one: Series) -> None:
    if one.spread == "error":
        ends = [[y - low for y, low in zip(one.y, one.low)], [high - y for y, high in zip(one.y, one.high)]]
        axes.errorbar(one.x, one.y, ends, capsize=3, fmt="none", color=LIGHT[one.colour], alpha=one.opacity)


def _bars(axes: Axes, chart: Chart) -> None:
    series = [one for one in _series(chart) if one.level is None]
    bars = [one for one in series if not one.shape]
    thick = 0.8 / len(bars)
    names = chart.y.names or chart.x.names
    own = [LIGHT[name.colour or chart.colour] for name in names]
    starts = [0.0] * len(names)
    for n, one in enumerate(bars):
        look = {"color": own, "alpha": one.opacity, **_signed(axes, one, len(set(own)) > 1)}
        if chart.y.names:
            axes.barh(one.y, one.x, left=starts, height=0.6, **look)
            starts = [start + value for start, value in zip(starts, one.x)]
        else:
            places = [x + (n - (len(bars) - 1) / 2) * thick for x in one.x]
            axes.bar(places, [value or 0.0 for value in one.y], thick * 0.95, **look)
    for one in series:
        if one.shape:
            axes.plot(one.x, one.y, MARKERS[one.shape], **_look(one))


def _signed(axes: Axes, one: Series, many: bool) -> dict[str, Any]:
    """The look of a series; one of many colours is named in the legend by a grey sign."""
    look = _look(one)
    if many and one.label:
        look.pop("label")
        sign = {"color": LIGHT["soft"], "alpha": one.opacity, "label": _text(one.label)}
        axes.plot([], [], MARKERS[one.shape], **sign)
    return look


def _points(axes: Axes, chart: Chart) -> None:
    rows, written = first_shown(chart.y.names), {name.label for name in chart.y.names}
    most = max((size for one in chart.series for size in one.sizes), default=1)
    for one in _series(chart):
        if one.shade:
            _shades(axes, chart, one)
        if one.shade or one.level is not None:
            continue
        y = [rows.index(round(at)) + at - round(at) for at in one.y] if rows else one.y
        _error(axes, one)
        if one.box:
            _box(axes, one, round(y[0]))
        areas = [70 * size / most for size in one.sizes] or one.size**2 * 0.8
        edge = {"edgecolors": "black", "linewidths": 0.45 * one.outline}
        look = {"marker": MARKERS[one.shape], "alpha": one.opacity, "zorder": 3, **edge}
        label = {} if one.label in written else _signed(axes, one, not one.colour)
        axes.scatter(one.x, y, s=areas, **{**label, **look, "color": None, "c": _colours(chart, one)})
        if one.labels and chart.names and one.fields:
            for x, at, value in zip(one.x, y, one.fields[one.labels]):
                text = _text(chart.names[one.labels][value])
                axes.annotate(text, (x, at), (4, 4), textcoords="offset points", weight="bold", zorder=5)


def _colours(chart: Chart, one: Series) -> Any:
    if one.colour or not one.fields or not chart.colour_by:
        return LIGHT[one.colour or chart.colour]
    return [LIGHT[f"k{value % 10}"] for value in one.fields[chart.colour_by[0]]]


def _box(axes: Axes, one: Series, row: int) -> None:
    assert one.box is not None
    low, q1, middle, q3, high, mean = one.box.values()
    stats = [{"whislo": low, "q1": q1, "med": middle, "q3": q3, "whishi": high}]
    face = {"facecolor": LIGHT[one.colour], "alpha": 0.3, "linewidth": 0.6}
    looks = {"boxprops": face, "medianprops": {"color": LIGHT[one.colour]}, "patch_artist": True}
    axes.bxp(stats, positions=[row], widths=0.5, orientation="horizontal", showfliers=False, **looks)
    axes.plot([mean], [row], "D", color="black", markeredgecolor="white", zorder=4)


def _shades(axes: Axes, chart: Chart, one: Series) -> None:
    """Values as colours: a cell with its value for each pair of names, or marks where x and y are numbers."""
    if not (chart.x.names and chart.y.names):
        drawn = axes.scatter(one.x, one.y, c=one.shade, s=80, edgecolors="black")
    else:
        found = dict(zip(zip(one.y, one.x), one.shade))
        across, down = range(len(chart.x.names)), range(len(chart.y.names))
        drawn = axes.imshow([[found.get((r, c), float("nan")) for c in across] for r in down], aspect="auto")
        axes.grid(False)
        paper = {"boxstyle": "round", "facecolor": "white", "alpha": 0.8, "linewidth": 0}
        for (row, column), value in found.items():
            axes.text(column, row, f"{value:.1f}", ha="center", va="center", bbox=paper)
    axes.figure.colorbar(drawn, ax=axes, label=chart.shaded)
