"""Single figures of one run's data and models: split, embeddings, margins, attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .paper_style import CLASSES, COLUMN, RUNS, Axes, Figure, new_figure

Run = dict[str, Any]


def of_run(run: Run) -> Iterator[tuple[str, Figure]]:
    """(name, figure) of what the run has."""
    if "split" in run:
        yield "split", _split(run["split"])
    if "space" in run:
        yield "embedding", _embedding(run["space"])
    if "margins" in run:
        yield "margins", _margins(run["margins"])
    if "attention" in run:
        yield "attention", _attention(run["attention"])


def _split(split: dict[str, Any]) -> Figure:
    """Area: training samples of a class at a client (FedTGP, Figs. 7–10)."""
    counts, classes = split["counts"], split["classes"]
    figure = new_figure(max(COLUMN, 0.11 * len(counts)), max(1.6, 0.5 + 0.14 * len(classes)))
    axes = figure.add_subplot()
    found = [(k, c, n) for k, row in enumerate(counts) for c, n in enumerate(row) if n]
    most = max((n for _, _, n in found), default=1)
    areas = [70 * n / most for _, _, n in found]
    axes.scatter(
        [k for k, _, _ in found], [c for _, c, _ in found], s=areas, color=RUNS[0], alpha=0.8, linewidths=0
    )
    axes.set_xlabel("client")
    axes.set_ylabel("class")
    if len(classes) <= 40:
        axes.set_yticks(range(len(classes)), classes)
    return figure


def _embedding(space: dict[str, Any]) -> Figure:
    """t-SNE: dots are test samples, triangles local, diamonds global prototypes."""
    figure = new_figure(COLUMN, COLUMN)
    axes = figure.add_subplot()
    _points(axes, space["samples"], marker="o", s=5, alpha=0.5, linewidths=0)
    _points(axes, space["local"], marker="^", s=16, edgecolors="black", linewidths=0.4)
    _points(axes, space["global"], marker="D", s=36, edgecolors="black", linewidths=0.9, zorder=4)
    for (x, y), cls in zip(space["global"]["xy"], space["global"]["cls"]):
        name = space["classes"][cls]
        axes.annotate(name, (x, y), (4, 4), textcoords="offset points", fontweight="bold", zorder=5)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def _points(axes: Axes, kind: dict[str, Any], **look: Any) -> None:
    if kind["xy"]:
        colours = [CLASSES[cls % len(CLASSES)] for cls in kind["cls"]]
        axes.scatter([x for x, _ in kind["xy"]], [y for _, y in kind["xy"]], c=colours, **look)


def _margins(margins: dict[str, Any]) -> Figure:
    """Largest margin of a class at a client beside that of the global prototypes (FedTGP, Fig. 1)."""
    classes = margins["classes"]
    figure = new_figure(max(COLUMN, 0.16 * len(classes)), 2.0)
    axes = figure.add_subplot()
    bars = [("largest at a client", margins["client"])]
    if margins["global"] is not None:
        bars.append(("global", margins["global"]))
    width = 0.8 / len(bars)
    for n, (label, values) in enumerate(bars):
        xs = [c + (n - (len(bars) - 1) / 2) * width for c in range(len(classes))]
        axes.bar(xs, [0.0 if v is None else v for v in values], width, label=label, color=RUNS[1 - n])
    axes.set_xticks(range(len(classes)), classes, rotation=90 if max(map(len, classes)) > 3 else 0)
    axes.set_xlabel("class")
    axes.set_ylabel("prototype margin (L2)")
    axes.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def _attention(attention: dict[str, Any]) -> Figure:
    """Weights of the last round's participants (ProtoMargin, supplement)."""
    clients, weights = attention["clients"], attention["weights"]
    figure = new_figure(max(COLUMN, 0.1 * len(clients)), 2.0)
    axes = figure.add_subplot()
    places = range(len(clients))
    axes.bar(places, weights, 0.7, color=RUNS[0], label="weight")
    axes.plot(places, attention["shares"], "D", color="black", label="share of samples")
    axes.axhline(1 / len(clients), color="black", linestyle="--", linewidth=0.7, label="equal")
    if len(clients) <= 40:
        axes.set_xticks(places, [str(client) for client in clients])
    axes.set_xlabel("client")
    axes.set_ylabel("weight in the average")
    axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
