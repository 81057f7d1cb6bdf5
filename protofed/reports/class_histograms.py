"""How many classes clients have (*ProtoMargin*, Fig. S1): by client, as a histogram, and their mixes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.rng import numpy_generator
from ..data import Dataset, Split
from ..data.labels import class_counts
from . import paper
from .charts_inside import split_chart
from .figures import check_figure
from .spec import Axis, Chart, Name, Series

MOST_MIXES = 30  # clients whose mixes are drawn, as in the paper
MOST_CLIENTS = 100  # that have a bar each


def draw_classes(dataset: Dataset, split: Split, path: Path) -> Path:
    """Write the three charts side by side. The background of masks is no class."""
    check_figure(path, "classes")
    counts = class_counts(dataset, split.train)
    return paper.write(class_charts(dataset, counts), [path])[0]


def class_charts(dataset: Dataset, counts: np.ndarray) -> list[Chart]:
    """Of rows of every class [K, C] that clients train on."""
    first = 1 if dataset.dense else 0
    held = (counts[:, first:] > 0).sum(axis=1)
    return [_by_client(held), _histogram(held), _mixes(dataset, counts, first)]


def _by_client(held: np.ndarray) -> Chart:
    shown = held[:MOST_CLIENTS].tolist()
    names = Axis("client", names=[Name(str(k)) for k in range(len(shown))])
    series = [Series("", range(len(shown)), shown)]
    return Chart(
        "bars",
        "classes",
        "",
        names,
        Axis("classes", whole=True),
        series,
        panel="classes of a client",
        colour="r0",
    )


def _histogram(held: np.ndarray) -> Chart:
    numbers = np.arange(held.min(), held.max() + 1)
    clients = [int((held == number).sum()) for number in numbers]
    names = Axis("classes", names=[Name(str(number)) for number in numbers])
    series = [Series("", range(len(numbers)), clients)]
    return Chart(
        "bars",
        "clients",
        "",
        names,
        Axis("clients", whole=True),
        series,
        panel="clients by classes",
        colour="r1",
    )


def _mixes(dataset: Dataset, counts: np.ndarray, first: int) -> Chart:
    some = np.arange(len(counts))
    if len(some) > MOST_MIXES:
        some = np.sort(numpy_generator("class mixes").choice(some, MOST_MIXES, replace=False))
    chart = split_chart("mixes", dataset.classes[first:], counts[some, first:].tolist(), {}, "rows")
    names = Axis("client", names=[Name(str(k)) for k in some])
    return Chart(
        "points", "mixes", "", names, chart.y, chart.series, panel="rows of every class", row=chart.row
    )
