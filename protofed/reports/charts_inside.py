"""What the charts of data and models show: split, embeddings, prototype margins, weights of clients."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from .charts import ROUND, Report, Run, by_group
from .spec import Axis, Chart, Name, Series

BINS = 25  # of a histogram
KINDS = {  # of points in an embedding: key → label, shape, size, outline, opacity
    "samples": ("test sample", "circle", 2.4, 0.0, 0.6),
    "local": ("local prototype", "triangle", 4.6, 0.9, 1.0),
    "global": ("global prototype", "diamond", 7.0, 2.0, 1.0),
}


def splits(report: Report) -> list[tuple[list[Run], Chart]]:
    """Runs of the same split, and its chart."""
    same: list[list[Run]] = []
    for run in report["runs"]:
        if "split" in run:
            alike = next((runs for runs in same if runs[0]["split"] == run["split"]), None)
            if alike is None:
                same.append([run])
            else:
                alike.append(run)
    return [(runs, _split(runs[0])) for runs in same]


def _split(run: Run) -> Chart:
    split = run["split"]
    about = {"training": split["samples"], "test": split["test_samples"]}
    name = f"split-{run['name']}"
    return split_chart(name, split["classes"], split["counts"], about, "training samples")


def split_chart(
    file: str,
    classes: Sequence[str],
    counts: Sequence[Sequence[int]],
    about: dict[str, Sequence[int]],
    sized: str,
) -> Chart:
    """Client × class, the area is the number of samples (FedTGP, Figs. 7–10); the first class below."""
    clients = [Name(str(k), {key: v[k] for key, v in about.items()}) for k in range(len(counts))]
    series = []
    for c, name in enumerate(classes):
        held = [k for k, row in enumerate(counts) if row[c]]
        y, sizes = [len(classes) - 1 - c] * len(held), [counts[k][c] for k in held]
        series.append(Series(name, held, y, "r0", "circle", sizes=sizes, opacity=0.75))
    rows = Axis("class", names=[Name(name) for name in reversed(classes)])
    columns, height = Axis("client", names=clients), 13 if len(classes) > 30 else 20
    title = "samples per client and class"
    return Chart("points", file, title, columns, rows, series, row=height, sized=sized)


def embeddings(report: Report) -> list[Chart]:
    """t-SNE of each run: test samples, local and global prototypes. A class has one colour in all."""
    runs = [(run, tags) for run, tags, _ in by_group(report) if "space" in run]
    classes = list(dict.fromkeys(name for run, _ in runs for name in run["space"]["classes"]))
    charts = []
    for run, tags in runs:
        number = [classes.index(name) for name in run["space"]["classes"]]
        series = []
        for kind, (label, shape, size, outline, opacity) in KINDS.items():
            found = run["space"][kind]
            fields = {
                "class": [number[c] for c in found["cls"]],
                "client": [None if client < 0 else client for client in found["client"]],
            }
            x, y = ([xy[axis] for xy in found["xy"]] for axis in (0, 1))
            style: dict[str, Any] = {"shape": shape, "size": size, "outline": outline, "opacity": opacity}
            labels = "class" if kind == "global" else ""
            if x:
                series.append(Series(label, x, y, fields=fields, labels=labels, **style))
        colours: dict[str, Any] = {"colour_by": ("class", "client"), "names": {"class": classes}}
        name, title = f"embedding-{run['name']}", run["name"]
        charts.append(Chart("points", name, title, Axis(), Axis(), series, bare=True, **colours, **tags))
    return charts


def margins(report: Report) -> list[Chart]:
    """Largest margin of a class at a client beside that of the global prototypes (FedTGP, Fig. 1)."""
    charts = []
    for run, tags, looks in by_group(report):
        if "margins" not in run:
            continue
        own, shared = run["margins"]["client"], run["margins"]["global"]
        names = [
            Name(name, {"ratio": _ratio(own[c], shared[c])} if shared else None)
            for c, name in enumerate(run["margins"]["classes"])
        ]
        places = range(len(names))
        series = [Series("largest at a client", places, own, opacity=0.4)]
        if shared:
            series.append(Series("global", places, shared))
        title, colour = run["name"], looks["colour"]
        axes = (Axis("class", names=names), Axis("prototype margin (L2)"))
        charts.append(Chart("bars", f"margins-{title}", title, *axes, series, colour=colour, **tags))
    return charts


def _ratio(own: float | None, shared: float | None) -> str:
    return f"{shared / own:.2f}" if own and shared is not None else "–"


# weights of the clients in the average

WEIGHT = Axis("weight in the average", low=0)


def weights_histogram(report: Report) -> Chart | None:
    """Of all participants in all rounds (ProtoMargin, Fig. S2)."""
    told = [one for one in by_group(report) if "average" in one[0]]
    found = [[weight for of_round in run["average"]["weights"] for weight in of_round] for run, *_ in told]
    if not told:
        return None
    top = max(1e-9, *(weight for values in found for weight in values))
    series = []
    for (run, tags, looks), values in zip(told, found):
        counts, edges = np.histogram(values, BINS, (0, top))
        middles, shares = (edges[:-1] + edges[1:]) / 2, 100 * counts / len(values)
        series.append(Series(run["name"], middles.tolist(), shares.tolist(), **looks, **tags))
    share = Axis("share of the weights (%)", zero=True)
    return Chart("lines", "weights", "weights of the clients", WEIGHT, share, series, steps=True)


def weights_by_round(report: Report) -> Chart | None:
    """Median over a round's participants, from the smallest to the largest."""
    series = []
    for run, tags, looks in by_group(report):
        if "average" not in run:
            continue
        rows = run["average"]["weights"]
        low, high = [min(row) for row in rows], [max(row) for row in rows]
        x, y = run["average"]["round"], [median(row) for row in rows]
        ends = {"smallest": low, "largest": high}
        series.append(
            Series(run["name"], x, y, spread="band", low=low, high=high, fields=ends, **looks, **tags)
        )
    return Chart("lines", "weights-rounds", "weights by round", ROUND, WEIGHT, series) if series else None


def attention(report: Report) -> list[Chart]:
    """Weights of the last round's participants beside their shares of samples (ProtoMargin, supplement)."""
    charts = []
    for run, tags, looks in by_group(report):
        if "attention" not in run:
            continue
        clients, weights, shares = (run["attention"][key] for key in ("clients", "weights", "shares"))
        places = range(len(clients))
        series = [
            Series("weight", places, weights, opacity=0.75),
            Series("share of the samples (FedAvg's weight)", places, shares, "ink", "diamond", size=4),
            Series("equal weights", level=1 / len(clients), colour="ink"),
        ]
        names = Axis("client", names=[Name(str(client)) for client in clients])
        title, colour = run["name"], looks["colour"]
        charts.append(
            Chart("bars", f"attention-{title}", title, names, WEIGHT, series, colour=colour, **tags)
        )
    return charts
