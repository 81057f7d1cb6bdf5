"""Bubble chart of a split, client × class, as in the figures of the FedTGP paper.

Zhang et al., *FedTGP*, AAAI 2024, Figs. 7–10: the area of a bubble is the number of rows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.errors import ConfigError
from .base import Dataset, Split
from .describe import describe_split

SUFFIXES = (".png", ".svg")
MOST_CLIENTS = 500  # beyond, bubbles are dust


def draw_split(dataset: Dataset, split: Split, path: str | Path) -> Path:
    """Write the chart of train and test rows together to a .png or .svg file."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"chart: {path.name} must end in {' or '.join(SUFFIXES)}")
    summary = describe_split(dataset, split, most=0)
    counts = (summary.train + summary.test)[:MOST_CLIENTS]
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("chart: needs matplotlib: pip install 'protofed[report]'") from error
    figure = Figure(figsize=_extent(counts), layout="constrained")
    _bubbles(figure, counts, dataset)
    if not path.parent.is_dir():
        raise ConfigError(f"chart: {path.parent} is not a folder")
    figure.savefig(path, dpi=150)
    return path


def _extent(counts: np.ndarray) -> tuple[float, float]:
    clients, classes = counts.shape
    return min(24.0, 2.5 + 0.25 * clients), min(24.0, 1.8 + 0.22 * classes)


def _bubbles(figure, counts: np.ndarray, dataset: Dataset) -> None:  # type: ignore[no-untyped-def]
    axes = figure.add_subplot()
    client, cls = np.nonzero(counts)
    rows = counts[client, cls]
    # the largest bubble just fills its cell (about 0.22 inch, 16 points)
    axes.scatter(client, cls, s=rows / rows.max() * 16**2, color="tab:red", linewidths=0)
    axes.set_xlabel("client")
    axes.set_ylabel("class")
    axes.set_xlim(-0.8, counts.shape[0] - 0.2)
    axes.set_ylim(-0.8, counts.shape[1] - 0.2)
    if counts.shape[0] <= 50:
        axes.set_xticks(range(counts.shape[0]))
    if counts.shape[1] <= 50:
        axes.set_yticks(range(counts.shape[1]), dataset.classes)
    axes.set_title(f"{dataset.name}: rows per client and class (largest {rows.max():,})")
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
