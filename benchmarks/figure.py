"""The figure of `python -m benchmarks --figure`: a round's time and memory against the number of clients."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from protofed.core.errors import ConfigError

BLUE, ORANGE = "#0072b2", "#d55e00"


def check_figure(file: Path) -> None:
    """A figure that cannot be written is a mistake found before anything is measured."""
    if file.suffix.lower() not in (".svg", ".png", ".pdf"):
        raise ConfigError(f"--figure: {file} must end in .svg, .png or .pdf")
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("--figure needs matplotlib: pip install 'protofed[report]'")


def draw_scale(found: dict[str, Any], file: Path) -> None:
    """Write PNG, SVG or PDF, by the file's ending."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "protofed", "font.size": 8}):
        figure = Figure(figsize=(6.8, 2.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        _panel(left, found["participants"], "participants", "participants of a round (all take part)")
        title = f"registered clients ({found['sampled']} take part)"
        _panel(right, found["registered"], "registered", title)
        figure.savefig(file, dpi=200, metadata={"Date": None} if file.suffix == ".svg" else None)


def _panel(axes: Any, points: list[dict[str, Any]], key: str, title: str) -> None:
    numbers = [point[key] for point in points]
    axes.loglog(numbers, [point["seconds"] for point in points], "o-", color=BLUE, label="time")
    axes.set(xlabel=title, ylabel="seconds a round")
    axes.grid(alpha=0.3)
    memory = axes.twinx()
    memory.semilogx(numbers, [point["own_mb"] for point in points], "s--", color=ORANGE, label="memory")
    memory.set_ylabel("peak memory above the start (MB)")
    memory.set_ylim(bottom=0)
    lines = [*axes.get_lines(), *memory.get_lines()]
    axes.legend(lines, [line.get_label() for line in lines], loc="upper left", frameon=False)
