"""What the charts of runs show: accuracy, clients and cost. Of data and models: charts_inside.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from .spec import Axis, Chart, Name, Series, look
from .style import number

Report = dict[str, Any]
Run = dict[str, Any]
MOST_WORST = 15  # clients in the chart of the worst
PALER = (1.0, 0.5, 0.25)  # parts of a bar, one after the other
ROUND = Axis("round", whole=True)
ACCURACY = Axis("test accuracy (%)", low=0, high=100)


@dataclass(frozen=True)
class Scored:
    """What the charts of accuracy compare: the modes of a single run, or for each choice one mode of each."""

    run: Run
    mode: str
    label: str
    tags: dict[str, Any]  # when it is shown
    look: dict[str, Any]


def scored(report: Report) -> Iterator[Scored]:
    """All that can be compared, with the mode that a method's paper reports as the first choice."""
    runs = report["runs"]
    for i, run in enumerate(runs):
        for n, mode in enumerate(run["modes"]):
            title = report["titles"][mode]
            if len(runs) == 1:
                yield Scored(run, mode, title, {"when": ("", mode)}, look(n))
            else:
                when = ("", mode) if mode == run["main"] else (mode,)
                yield Scored(run, mode, f"{run['name']} · {title}", {"group": i, "when": when}, look(i))


def by_group(report: Report) -> list[tuple[Run, dict[str, Any], dict[str, Any]]]:
    """(run, tags, look) of each run, for charts where prediction modes play no part."""
    tagged = len(report["runs"]) > 1
    return [(run, {"group": i} if tagged else {}, look(i)) for i, run in enumerate(report["runs"])]


# accuracy


def accuracy_by_round(report: Report, stat: str, name: str, title: str) -> Chart:
    """A statistic over the clients, test by test; the mean with its spread, if asked for."""
    series = [_curve(one, one.run["tests"]["round"], stat) for one in scored(report)]
    return Chart("lines", name, title, ROUND, ACCURACY, series)


def accuracy_by_bytes(report: Report) -> Chart:
    """Mean accuracy against all that was sent until the test; who sends nothing is a level."""
    series = []
    for one in scored(report):
        tests = one.run["tests"]
        if any(tests["bytes"]):
            series.append(_curve(one, tests["bytes"], "mean", {"round": tests["round"]}))
        elif tests["bytes"]:
            last, note = tests["acc"][one.mode]["mean"][-1], f"{one.label}: nothing sent"
            series.append(Series(one.label, level=last, note=note, **one.look, **one.tags))
    sent = Axis("bytes sent", "bytes", log=True)
    return Chart("lines", "accuracy-bytes", "accuracy against bytes", sent, ACCURACY, series)


def _curve(one: Scored, x: Sequence[float], stat: str, fields: dict[str, Any] | None = None) -> Series:
    found = one.run["tests"]["acc"][one.mode]
    pairs = list(zip(found[stat], found["std"] if stat == "mean" else []))
    low, high = (
        [None if None in (mean, std) else mean + sign * std for mean, std in pairs] for sign in (-1, 1)
    )
    spread: Any = "asked" if stat == "mean" else ""
    return Series(
        one.label, x, found[stat], spread=spread, low=low, high=high, fields=fields, **one.look, **one.tags
    )


def loss(report: Report) -> Chart:
    """Training loss of each round."""
    series = [
        Series(run["name"], run["rounds"]["round"], run["rounds"]["loss"], **looks, **tags)
        for run, tags, looks in by_group(report)
    ]
    return Chart("lines", "loss", "training loss", ROUND, Axis("training loss"), series)


# clients


def client_accuracies(report: Report) -> Chart:
    """A row for each run or mode: a dot for each client, the middle half as a box, the mean."""
    found = [one for one in scored(report) if _of_clients(one)]
    series = []
    for row, one in enumerate(found):
        known = [(k, v) for k, v in zip(one.run["clients"]["ids"], _of_clients(one)) if v is not None]
        x, spread = [v for _, v in known], [row + ((n * 0.618) % 1 - 0.5) * 0.4 for n in range(len(known))]
        style = {**one.look, "shape": "circle", "dash": (), "opacity": 0.6, "size": 3.2}
        about = {"client": [k for k, _ in known]}
        series.append(Series(one.label, x, spread, fields=about, box=_box(x), **style, **one.tags))
    rows = Axis(names=[Name(one.label, **one.tags) for one in found], over=True)
    share = Axis("test accuracy of a client (%)", low=0, high=100)
    return Chart("points", "clients", "accuracies of the clients", share, rows, series, row=64)


def _of_clients(one: Scored) -> list[float | None]:
    found: list[float | None] = one.run["clients"]["acc"].get(one.mode, [])
    return found if any(value is not None for value in found) else []


def _box(values: Sequence[float]) -> dict[str, float]:
    shares = {"minimum": 0, "lower quartile": 25, "median": 50, "upper quartile": 75, "maximum": 100}
    return {**{name: float(np.percentile(values, s)) for name, s in shares.items()}, "mean": fmean(values)}


def worst_clients(report: Report) -> list[Chart]:
    """For each choice of a mode: the clients with the lowest accuracy, and how they fare in other runs."""
    found = [one for one in scored(report) if _of_clients(one)]
    choices = dict.fromkeys(choice for one in found for choice in one.tags["when"])
    return [_worst([one for one in found if choice in one.tags["when"]], choice) for choice in choices]


def _worst(found: Sequence[Scored], choice: str) -> Chart:
    each = max(3, -(-12 // len(found)))
    splits = [
        one.run["split"]["samples"] if "split" in one.run else one.run["clients"]["ids"] for one in found
    ]
    together = all(split == splits[0] for split in splits)
    values = [dict(zip(one.run["clients"]["ids"], _of_clients(one))) for one in found]
    rows: dict[tuple[int, int], dict[int, float]] = {}  # (whose, client) → accuracy in each
    for n in range(len(found)):
        known = {client: value for client, value in values[n].items() if value is not None}
        for client in sorted(known, key=known.__getitem__)[:each]:
            others = range(len(found)) if together else [n]
            rows[0 if together else n, client] = {
                k: value for k in others if (value := values[k].get(client)) is not None
            }
    chosen = sorted(rows, key=lambda row: min(rows[row].values()))[:MOST_WORST]
    names = [
        Name(f"client {k}" if together else f"{found[n].run['name']}: {k}", _about(found[n].run, k))
        for n, k in chosen
    ]
    series = []
    for n, one in enumerate(found):
        places = [(rows[row][n], i) for i, row in enumerate(chosen) if n in rows[row]]
        beside = ((n + 0.5) / len(found) - 0.5) * 0.45  # equal values stay visible
        x, y = [value for value, _ in places], [i + beside for _, i in places]
        series.append(
            Series(one.label, x, y, size=4.2, **{**one.look, "dash": ()}, group=one.tags.get("group"))
        )
    where = Axis(names=names)
    return Chart("points", "clients-worst", "the worst clients", ACCURACY, where, series, when=(choice,))


def _about(run: Run, client: int) -> dict[str, Any]:
    about = {}
    if "split" in run:
        about = {"samples": run["split"]["samples"][client], "classes": run["split"]["held"][client]}
    return {**about, "model": run["models"][client]} if "models" in run else about


# cost

Columns = dict[str, list[Any]]


def communication(report: Report) -> Chart:
    """Bytes by way and kind, summed over rounds and clients."""

    def parts(rounds: Columns) -> list[float]:
        return [sum(rounds["up"]), sum(rounds["down"]), sum(rounds["up_meta"]) + sum(rounds["down_meta"])]

    def more(rounds: Columns) -> dict[str, str]:
        wire = [*rounds["up_wire"], *rounds["down_wire"]]
        return {
            "up, parameters a round": number(round(fmean(rounds["up_params"]))),
            "down, parameters a round": number(round(fmean(rounds["down_params"]))),
            "on the wire": "–" if None in wire else number(sum(wire), "bytes"),
        }

    labels = ("parameters up", "parameters down", "counts and class labels")
    return _cost("communication", Axis("bytes sent", "bytes"), report, labels, parts, more)


def duration(report: Report) -> Chart:
    """Wall clock of the run."""

    def parts(rounds: Columns) -> list[float]:
        return [sum(rounds["seconds"]), sum(rounds["test_seconds"])]

    def more(rounds: Columns) -> dict[str, str]:
        return {
            "a round": number(fmean(rounds["seconds"]), "seconds"),
            "slowest round": number(max(rounds["seconds"]), "seconds"),
            "clients left out": number(sum(rounds["failed"])),
        }

    labels = ("rounds: training and server", "tests")
    return _cost("time", Axis("time", "seconds"), report, labels, parts, more)


def _cost(
    name: str,
    axis: Axis,
    report: Report,
    labels: Sequence[str],
    parts: Callable[[Columns], list[float]],
    more: Callable[[Columns], dict[str, str]],
) -> Chart:
    began = [(*one, one[0]["rounds"]) for one in by_group(report) if one[0]["rounds"]["round"]]
    values = [parts(rounds) for *_, rounds in began]
    names = [
        Name(f"{run['name']}  {number(sum(found), axis.format)}", more(rounds), looks["colour"], **tags)
        for (run, tags, looks, rounds), found in zip(began, values)
    ]
    series = [
        Series(label, [found[part] for found in values], range(len(names)), opacity=PALER[part])
        for part, label in enumerate(labels)
    ]
    return Chart("bars", name, axis.name, axis, Axis(names=names, over=True), series, row=44)
