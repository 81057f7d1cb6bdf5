"""What the charts of runs show: accuracy, clients and cost. Of data and models: charts_inside.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from .spec import Axis, Chart, Name, Series, look
from .style import number

Report = dict[str, Any]
Run = dict[str, Any]
Grouped = tuple[Run, dict[str, Any], dict[str, Any]]  # when it is shown, how it looks
MOST_WORST = 15  # clients in the chart of the worst
PALER = (1.0, 0.5, 0.25)  # parts of a bar, one after the other
MAIN = "main"  # the choice of each method's own main mode; no mode has this name
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
    """All that can be compared. Of several runs the first choice is one mode, the same for all: numbers of
    different modes answer different questions."""
    runs, shared = report["runs"], shared_mode(report)
    for i, run in enumerate(runs):
        for n, mode in enumerate(run["modes"]):
            title = report["titles"][mode]
            if len(runs) == 1:
                yield Scored(run, mode, title, {"when": ("", mode)}, look(n))
            else:
                main = (MAIN,) if mode == run["main"] else ()
                tags = {"group": i, "when": ("" if mode == shared else mode, *main)}
                yield Scored(run, mode, f"{run['name']} · {title}", tags, look(i))


def shared_mode(report: Report) -> str | None:
    """The mode that most runs have; among several the first run's main one, then in its order."""
    modes = dict.fromkeys(mode for run in report["runs"] for mode in run["modes"])
    return max(modes, key=lambda mode: sum(mode in run["modes"] for run in report["runs"]), default=None)


def by_group(report: Report) -> list[Grouped]:
    """(run, tags, look) of each run, for charts where prediction modes play no part."""
    tagged = len(report["runs"]) > 1
    return [(run, {"group": i} if tagged else {}, look(i)) for i, run in enumerate(report["runs"])]


def references(report: Report) -> list[Series]:
    """What an accuracy is to be held against: majority class and chance, of each run if they differ."""
    runs, series = report["runs"], []
    majority = [run.get("majority") for run in runs]
    chance = [run["results"].get("clf", run["results"].get(run["main"], {})).get("chance") for run in runs]
    for dash, name, values in (((7, 3), "majority class", majority), ((2, 3), "chance", chance)):
        known = {None if value is None else round(value, 1) for value in values}
        for i, (run, value) in enumerate(zip(runs, values)):
            if value is None or (len(known) == 1 and i):
                continue
            group, whose = (i, f", {run['name']}") if len(known) > 1 else (None, "")
            note = f"{name} {value:.1f}{whose}"
            look: dict[str, Any] = {"colour": "soft", "dash": dash}
            series.append(Series(f"{name}{whose}", level=value, note=note, group=group, **look))
    return series


# accuracy


def accuracy(report: Report) -> list[Chart]:
    """Accuracy by round, against bytes, of the worst clients; training loss."""
    text = "Mean over the tested clients; “± std” adds the spread over them as a band."
    if several_seeds(report):
        text = "Mean over clients, then over seeds; the band is the standard deviation over seeds."
    worst = "Mean accuracy of the tenth of the clients that fare worst in that test."
    return [
        _by_round(report, "mean", "accuracy-rounds", "Accuracy against rounds", text),
        _by_bytes(report),
        _by_round(report, "worst10", "accuracy-worst10", "The worst tenth of the clients", worst),
        _loss(report),
    ]


def _by_round(report: Report, stat: str, name: str, title: str, text: str) -> Chart:
    series = [
        curve
        for one in scored(report)
        for curve in (*_seed_curves(one, stat), _curve(one, one.run["tests"]["round"], stat))
    ]
    series += references(report)
    return Chart("lines", name, title, ROUND, ACCURACY, series, text)


def _by_bytes(report: Report) -> Chart:
    """Who sends nothing is a level."""
    series = []
    for one in scored(report):
        tests = one.run["tests"]
        if any(tests["bytes"]):
            series.append(_curve(one, tests["bytes"], "mean", {"round": tests["round"]}))
        elif tests["bytes"]:
            last, note = tests["acc"][one.mode]["mean"][-1], f"{one.label}: nothing sent"
            series.append(Series(one.label, level=last, note=note, **one.look, **one.tags))
    series += references(report)
    sent, title = Axis("bytes sent", "bytes", log=True), "Accuracy against bytes sent"
    text = "Payload up and down of all clients until the test, four bytes a parameter; logarithmic."
    return Chart("lines", "accuracy-bytes", title, sent, ACCURACY, series, text)


def _curve(one: Scored, x: Sequence[float], stat: str, fields: dict[str, Any] | None = None) -> Series:
    found = one.run["tests"]["acc"][one.mode]
    pairs = list(zip(found[stat], found["std"] if stat == "mean" else []))
    low, high = (
        [None if None in (mean, std) else mean + sign * std for mean, std in pairs] for sign in (-1, 1)
    )
    spread: Any = "" if stat != "mean" else "band" if "seeds" in one.run else "asked"
    return Series(
        one.label, x, found[stat], spread=spread, low=low, high=high, fields=fields, **one.look, **one.tags
    )


def _seed_curves(one: Scored, stat: str) -> list[Series]:
    """Each seed as a thin line, if the reader unfolds them."""
    return [
        Series(
            f"{one.label}, seed {seed['seed']}",
            seed["tests"]["round"],
            seed["tests"]["acc"][one.mode][stat],
            colour=one.look["colour"],
            opacity=0.45,
            single=True,
            **one.tags,
        )
        for seed in one.run.get("seeds", [])
    ]


def several_seeds(report: Report) -> bool:
    """Whether some row is a mean over seeds."""
    return any("seeds" in run for run in report["runs"])


def _loss(report: Report) -> Chart:
    series = [
        Series(run["name"], run["rounds"]["round"], run["rounds"]["loss"], **looks, **tags)
        for run, tags, looks in by_group(report)
    ]
    text = "Mean over a round's participants of all terms of the method's loss; methods are not comparable."
    return Chart("lines", "loss", "Training loss", ROUND, Axis("training loss"), series, text)


# clients


def clients(report: Report) -> list[Chart]:
    """Accuracy of every client, and for each choice of a mode the worst."""
    found = [one for one in scored(report) if _of_clients(one)]
    choices = dict.fromkeys(("", *(choice for one in found for choice in one.tags["when"])))
    chosen = {choice: [one for one in found if choice in one.tags["when"]] for choice in choices}
    paired = not several_seeds(report)  # a client of one seed is not that of another
    worst = [_worst(some, choice) for choice, some in chosen.items() if some and paired]
    every = [_spread(found), *worst] if found else []
    return [replace(chart, series=[*chart.series, *references(report)]) for chart in every]


def _spread(found: Sequence[Scored]) -> Chart:
    """A row for each run or mode."""
    series = []
    for row, one in enumerate(found):
        known = [(k, v) for k, v in zip(one.run["clients"]["ids"], _of_clients(one)) if v is not None]
        x, spread = [v for _, v in known], [row + ((n * 0.618) % 1 - 0.5) * 0.4 for n in range(len(known))]
        style = {**one.look, "shape": "circle", "dash": (), "opacity": 0.6, "size": 3.2}
        about = {"client": [k for k, _ in known]}
        series.append(Series(one.label, x, spread, fields=about, box=_box(x), **style, **one.tags))
    rows = Axis(names=[Name(one.label, **one.tags) for one in found], over=True)
    share = Axis("test accuracy of a client (%)", low=0, high=100)
    text = "A dot is a client, the box the middle half, the line the median, the diamond the mean."
    return Chart("points", "clients", "Accuracy of each client, last test", share, rows, series, text, row=64)


def _of_clients(one: Scored) -> list[float | None]:
    found: list[float | None] = one.run["clients"]["acc"].get(one.mode, [])
    return found if any(value is not None for value in found) else []


def _box(values: Sequence[float]) -> dict[str, float]:
    shares = {"minimum": 0, "lower quartile": 25, "median": 50, "upper quartile": 75, "maximum": 100}
    return {**{name: float(np.percentile(values, s)) for name, s in shares.items()}, "mean": fmean(values)}


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
    text = "Those with the lowest accuracy under each prediction."
    if found[0].tags.get("group") is not None:
        text = "Those with the lowest accuracy in each run, and how they fare in the others."
    where, when = Axis(names=names), (choice,)
    return Chart("points", "clients-worst", "The worst clients", ACCURACY, where, series, text, when=when)


def _about(run: Run, client: int) -> dict[str, Any]:
    about = {}
    if "split" in run:
        about = {"samples": run["split"]["samples"][client], "classes": run["split"]["held"][client]}
    return {**about, "model": run["models"][client]} if "models" in run else about


# cost


def cost(report: Report) -> list[Chart]:
    """Bytes by way and kind, and time, summed over rounds and clients."""
    began = [(*one, one[0]["rounds"]) for one in by_group(report) if one[0]["rounds"]["round"]]
    if not began:
        return []

    def stacked(
        name: str, title: str, text: str, axis: Axis, parts: dict[str, list[float]], about: Any
    ) -> Chart:
        totals = [number(sum(found), axis.format) for found in zip(*parts.values())]
        names = [
            Name(f"{run['name']}  {total}", about(rounds), looks["colour"], **tags)
            for (run, tags, looks, rounds), total in zip(began, totals)
        ]
        series = [
            Series(label, values, range(len(names)), opacity=paler)
            for (label, values), paler in zip(parts.items(), PALER)
        ]
        return Chart("bars", name, title, axis, Axis(names=names, over=True), series, text, row=44)

    def of(*columns: str) -> list[float]:
        return [sum(sum(rounds[column]) for column in columns) for *_, rounds in began]

    sent = {"parameters up": of("up"), "parameters down": of("down")}
    sent["counts and class labels"] = of("up_meta", "down_meta")
    time = {"rounds: training and server": of("seconds"), "tests": of("test_seconds")}
    over = " Mean over seeds." if several_seeds(report) else ""
    total, clock = f"Sum over rounds and clients.{over}", f"Wall clock of the run.{over}"
    return [
        stacked("communication", "Communication", total, Axis("bytes sent", "bytes"), sent, _about_sent),
        stacked("time", "Time", clock, Axis("time", "seconds"), time, _about_time),
    ]


def _about_sent(rounds: dict[str, list[Any]]) -> dict[str, str]:
    wire = [*rounds["up_wire"], *rounds["down_wire"]]
    return {
        "up, parameters a round": number(round(fmean(rounds["up_params"]))),
        "down, parameters a round": number(round(fmean(rounds["down_params"]))),
        "on the wire": "–" if None in wire else number(sum(wire), "bytes"),
    }


def _about_time(rounds: dict[str, list[Any]]) -> dict[str, str]:
    return {
        "a round": number(fmean(rounds["seconds"]), "seconds"),
        "slowest round": number(max(rounds["seconds"]), "seconds"),
        "clients left out": number(sum(rounds["failed"])),
    }
