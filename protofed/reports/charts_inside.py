"""What the charts of data and models show: split, embeddings, prototype margins, weights of clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np

from .charts import ROUND, Grouped, Report, Run, by_group
from .spec import Axis, Chart, Name, Series

SPACE = (
    "t-SNE of test samples with the prototypes, each run for itself: near and far mean something, directions "
    "and distances between groups do not. Choose classes to see them alone."
)
MARGINS = (
    "Distance of a class's prototype to the nearest of another class. At a client: among its own prototypes, "
    "the largest over clients. Global: among the server's prototypes, where the method has any."
)
BINS = 25  # of a histogram
KINDS = {  # of points in an embedding: key → label, shape, size, outline, opacity
    "samples": ("test sample", "circle", 2.4, 0.0, 0.6),
    "local": ("local prototype", "triangle", 4.6, 0.9, 1.0),
    "global": ("global prototype", "diamond", 7.0, 2.0, 1.0),
}


def splits(report: Report) -> list[Chart]:
    """A chart for each split; most often the runs have one in common."""
    same: list[list[Run]] = []
    for run in report["runs"]:
        if "split" in run:
            alike = next((runs for runs in same if runs[0]["split"] == run["split"]), None)
            if alike is None:
                same.append([run])
            else:
                alike.append(run)
    return [_split(runs, len(same) > 1) for runs in same]


def _split(runs: Sequence[Run], several: bool) -> Chart:
    split, names = runs[0]["split"], ", ".join(run["name"] for run in runs)
    counts, held = split["counts"], len(split["samples"])
    about = {"training": split["samples"], "test": split["test_samples"]}
    some = f", the first {len(counts)} of {held} clients" if held > len(counts) else ""
    text = f"Area: training samples of a class at a client{some}."
    text += " The same for all runs." if len(runs) > 1 and not several else ""
    chart = split_chart(f"split-{runs[0]['name']}", split["classes"], counts, about, "training samples")
    return replace(chart, text=text, panel=names if several else "", wide=True)


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
    title = "Samples per client and class"
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
        panel: dict[str, Any] = {"panel": run["name"], "wide": True, **colours, **tags}
        name, title = f"embedding-{run['name']}", "Samples and prototypes"
        charts.append(Chart("points", name, title, Axis(), Axis(), series, SPACE, bare=True, **panel))
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
        panel: dict[str, Any] = {"panel": run["name"], "wide": True, "colour": looks["colour"], **tags}
        name, axes = f"margins-{run['name']}", (Axis("class", names=names), Axis("prototype margin (L2)"))
        charts.append(Chart("bars", name, "Prototype margins", *axes, series, MARGINS, **panel))
    return charts


def _ratio(own: float | None, shared: float | None) -> str:
    return f"{shared / own:.2f}" if own and shared is not None else "–"


# weights of the clients in the average

WEIGHT = Axis("weight in the average", low=0)


def weights(report: Report) -> list[Chart]:
    """In all rounds, by round, and in the last."""
    told = [one for one in by_group(report) if "average" in one[0]]
    return [*([_histogram(told), _by_round(told)] if told else []), *_attention(report)]


def _histogram(told: Sequence[Grouped]) -> Chart:
    """Of all participants in all rounds (ProtoMargin, Fig. S2)."""
    found = [[weight for of_round in run["average"]["weights"] for weight in of_round] for run, *_ in told]
    top = max(1e-9, *(weight for values in found for weight in values))
    series = []
    for (run, tags, looks), values in zip(told, found):
        counts, edges = np.histogram(values, BINS, (0, top))
        middles, shares = (edges[:-1] + edges[1:]) / 2, 100 * counts / len(values)
        series.append(Series(run["name"], middles.tolist(), shares.tolist(), **looks, **tags))
    share = Axis("share of the weights (%)", zero=True)
    text = "Of all participants in all rounds: how often a weight between two values occurs."
    return Chart("lines", "weights", "Weights in all rounds", WEIGHT, share, series, text, steps=True)


def _by_round(told: Sequence[Grouped]) -> Chart:
    series = []
    for run, tags, looks in told:
        rows = run["average"]["weights"]
        low, high = [min(row) for row in rows], [max(row) for row in rows]
        x, y = run["average"]["round"], [median(row) for row in rows]
        ends = {"smallest": low, "largest": high}
        series.append(
            Series(run["name"], x, y, spread="band", low=low, high=high, fields=ends, **looks, **tags)
        )
    text = "Line: the median over a round's participants; band: from the smallest to the largest."
    return Chart("lines", "weights-rounds", "Weights by round", ROUND, WEIGHT, series, text)


def _attention(report: Report) -> list[Chart]:
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
        panel: dict[str, Any] = {"panel": run["name"], "wide": True, "colour": looks["colour"], **tags}
        name, text = (
            f"attention-{run['name']}",
            "Weight of each participant of the last round in the average.",
        )
        charts.append(Chart("bars", name, "The last round", names, WEIGHT, series, text, **panel))
    return charts
