"""t-SNE of one class of each run, side by side: samples by client, prototypes sized by their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..analysis.one_class import OneClass
from .inside import project
from .spec import Axis, Chart, Series

KINDS = {  # field of OneClass → label, shape, opacity
    "samples": ("samples", "circle", 0.35),
    "local": ("prototypes of a client", "square", 0.9),
    "shared": ("global prototypes", "diamond", 1.0),
}
COLOURS = 10  # of the palette; more clients take them again, so that a legend would name none of them


def cluster_chart(name: str, title: str, found: OneClass, clients: Mapping[int, str]) -> Chart:
    """One run. Clients have a colour each, the server is black; the area of a prototype is its weight,
    relative to the largest of its kind. `clients`: names of those in any run of a figure, so that one has
    the same colour in all."""
    colours = {client: place % COLOURS for place, client in enumerate(clients)}
    placed = project(np.concatenate([part.rows.numpy() for part in found]))
    series: list[Series] = []
    start = 0
    for kind, (label, shape, opacity) in KINDS.items():
        part = getattr(found, kind)
        xy = placed[start : start + len(part.rows)]
        start += len(part.rows)
        if not len(xy):
            continue
        look: dict[str, Any] = {"shape": shape, "opacity": opacity}
        if kind != "samples":
            look |= {"sizes": relative(part.weight), "outline": 1.0}
        if kind == "shared":
            look["colour"] = "ink"
        else:
            look["fields"] = {"client": [colours[client] for client in part.client]}
        series.append(Series(label, xy[:, 0].tolist(), xy[:, 1].tolist(), **look))
    named = len(clients) <= COLOURS
    if named:
        series += [Series(who, (), (), f"k{colours[client]}", "circle") for client, who in clients.items()]
    return Chart(
        "points",
        name,
        title,
        Axis(),
        Axis(),
        series,
        panel=title,
        note=title if named else f"{title}\none colour per client; after {COLOURS} clients they repeat",
        bare=True,
        colour_by=("client",),
    )


def relative(weights: Sequence[float]) -> list[float]:
    """Weights divided by the largest; all 1 where none is positive.

    >>> relative([1.0, 4.0, 2.0])
    [0.25, 1.0, 0.5]
    """
    most = max(weights, default=0.0)
    return [weight / most for weight in weights] if most > 0 else [1.0] * len(weights)
