"""Single figures in paper quality: every chart of a report, and that of a split before any run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError, RunError
from ..data import Dataset, Split
from ..data.split_summary import describe_split
from . import paper
from .charts_inside import split_chart
from .content import figures

SUFFIXES = ("png", "svg", "pdf")
MOST_CLIENTS = 500  # beyond, bubbles are dust


def write_figures(report: dict[str, Any], folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """Write every chart of the page, as it is before any choice; returns the files."""
    paper.require("figures")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot create {folder}: {error.strerror or error}") from error
    written = []
    for chart in figures(report):
        name = re.sub(r"[^\w.-]+", "_", chart.name).strip("_")
        written += paper.write([chart], [folder / f"{name}.{suffix}" for suffix in suffixes])
    return written


def check_figure(path: Path, where: str) -> None:
    """Refuse what cannot become the file of a figure, before anything is computed."""
    if path.suffix.lower().lstrip(".") not in SUFFIXES:
        raise ConfigError(f"{where}: {path.name} must end in .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise ConfigError(f"{where}: {path.parent} is not a folder")
    paper.require(where)


def draw_split(dataset: Dataset, split: Split, path: Path) -> Path:
    """Client × class, training and test rows together (FedTGP, Figs. 7–11)."""
    check_figure(path, "chart")
    summary = describe_split(dataset, split, most=0)
    counts = (summary.train + summary.test)[:MOST_CLIENTS]
    title = f"{dataset.name}: rows per client and class (largest {counts.max():,})"
    chart = split_chart(path.stem, dataset.classes, counts.tolist(), {}, "rows")
    return paper.write([replace(chart, note=title)], [path])[0]
