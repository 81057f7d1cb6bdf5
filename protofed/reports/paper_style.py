"""How the single figures look, and the import of matplotlib, which is an extra."""

from __future__ import annotations

from typing import Any

from ..core.errors import ConfigError

Figure = Any  # matplotlib.figure.Figure; its types are not needed without it
Axes = Any

COLUMN = 3.4  # inches, one column of a two-column paper
RUNS = ("#0072b2", "#d55e00", "#009e73", "#c0609a", "#d99400", "#3fa3df", "#5a6470")  # Okabe and Ito
CLASSES = (  # Petroff
    "#3f90da",
    "#ffa90e",
    "#bd1f01",
    "#94a4a2",
    "#832db6",
    "#a96b59",
    "#e76300",
    "#b9ac70",
    "#717581",
    "#92dadd",
)
DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)))
MARKERS = "os^DPv"
STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
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
}


def import_matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise ConfigError("figures need matplotlib: pip install 'protofed[report]'") from error
    return matplotlib


def new_figure(width: float, height: float) -> Figure:
    """A figure without window; call within `rc_context(STYLE)`."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width, height), layout="constrained")
