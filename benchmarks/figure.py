"""The figure of `python -m benchmarks --figure`: a round's time and memory against the number of clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from protofed.core.errors import ConfigError
from protofed.reports import paper
from protofed.reports.figures import SUFFIXES
from protofed.reports.spec import Axis, Chart, Series, look


def check_figure(file: Path) -> None:
    """A figure that cannot be written is a mistake found before anything is measured."""
    if file.suffix.lower().lstrip(".") not in SUFFIXES:
        raise ConfigError(f"--figure: {file} must end in .svg, .png or .pdf")
    paper.require("--figure")


def draw_scale(found: dict[str, Any], file: Path) -> None:
    """Write PNG, SVG or PDF, by the file's ending: time above, memory below."""
    all_of_them = Axis("participants of a round (all take part)", log=True)
    some_of_many = Axis(f"registered clients ({found['sampled']} take part)", log=True)
    memory = Axis("peak memory above the start (MB)", zero=True)
    panels = [
        ("participants", all_of_them, "seconds", Axis("time of a round", "seconds", log=True)),
        ("registered", some_of_many, "seconds", Axis("time of a round", "seconds", zero=True)),
        ("participants", all_of_them, "own_mb", memory),
        ("registered", some_of_many, "own_mb", memory),
    ]
    charts = []
    for counted, across, measured, up in panels:
        x, y = ([point[name] for point in found[counted]] for name in (counted, measured))
        series = [Series("", x, y, **look(int(measured == "own_mb")))]
        charts.append(Chart("lines", "scale", "", across, up, series))
    paper.write(charts, [file], across=2)
