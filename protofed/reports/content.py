"""The page as plain data: header, sections, cards, tables and the charts in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from . import charts, charts_inside
from .charts import Report, Run
from .spec import Chart, first_shown, look, plain
from .style import fixed, number

MIXED = "different predictions beside each other: each as its paper reports it, not to be ranked"
COMMON = ("data", "partition", "models", "clients", "rounds.rounds", "seed")  # in the header, if equal


@dataclass(frozen=True)
class PageTable:
    """Rows of text. `groups`: whose sign stands before a row; `strong`: the column in bold where it does;
    `words`: columns of text; `folded`: under this title."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    groups: Sequence[int | None] = ()
    strong: int | None = None
    words: Sequence[int] = (0,)
    folded: str = ""


@dataclass(frozen=True)
class Card:
    """Charts that share a legend and a table; or tables, and terms with their meaning."""

    title: str
    text: str
    charts: Sequence[Chart] = ()
    tables: Sequence[PageTable] = ()
    terms: dict[str, str] | None = None
    wide: bool = True


def page(report: Report) -> dict[str, Any]:
    """All that the page shows of a report."""
    sections = {title: _cards(found) for title, found in _charts(report).items() if found}
    sections = {"Results": [_results(report)], **sections, "Settings": [_settings(report["runs"])]}
    data = {
        **_header(report),
        "groups": [{"label": run["name"], **look(i)} for i, run in enumerate(report["runs"])],
        "bar": _bar(report),
        "sections": [{"title": title, "cards": cards} for title, cards in sections.items()],
    }
    return dict(plain(data))


def figures(report: Report) -> list[Chart]:
    """Every chart of the page before any choice."""
    found = [chart for charts in _charts(report).values() for chart in charts]
    return [found[i] for i in first_shown(found)]


def _charts(report: Report) -> dict[str, list[Chart]]:
    """Section → its charts."""
    return {
        "Accuracy": charts.accuracy(report),
        "Clients": charts.clients(report),
        "Data": charts_inside.splits(report),
        "Embeddings": charts_inside.embeddings(report),
        "Prototypes": charts_inside.margins(report),
        "Weights of the clients": charts_inside.weights(report),
        "Cost": charts.cost(report),
    }


def _cards(found: Sequence[Chart]) -> list[Card]:
    groups = [list(group) for _, group in groupby(found, lambda chart: chart.title)]
    return [Card(group[0].title, group[0].text, group, wide=group[0].wide) for group in groups]


def _header(report: Report) -> dict[str, Any]:
    runs = report["runs"]
    names = [run["name"] for run in runs]
    common = [key for key in COMMON if len({str(run["config"].get(key)) for run in runs}) == 1]
    done = [len(run["rounds"]["round"]) for run in runs]
    notes = [f"{run['name']}: {note}" for run in runs for note in run["notes"]]
    header: dict[str, Any] = {
        "title": f"{len(names)} runs compared" if len(names) > 4 else " · ".join(names),
        "subtitle": " · ".join(f"{key.split('.')[-1]} {runs[0]['config'].get(key)}" for key in common),
        "footer": f"protofed {report['version']}, {report['made']}",
    }
    if "live" in report:
        header["live"] = {"on": report["live"], "done": done[0], "planned": runs[0]["planned"]}
    else:
        halves = [(run, n) for run, n in zip(runs, done) if run["state"] != "finished"]
        notes = [*(f"{run['name']}: {n} of {run['planned']} rounds done" for run, n in halves), *notes]
    return {**header, "notes": notes}


def _bar(report: Report) -> dict[str, Any]:
    several, shared = len(report["runs"]) > 1, charts.shared_mode(report)
    first = {"value": "", "label": "all", "title": ""}
    if several and shared is not None:
        first = {"value": "", "label": report["titles"][shared], "title": report["modes"][shared]}
    options = [first]
    for mode, line in report["modes"].items():
        if not several or mode != shared:
            options.append({"value": mode, "label": report["titles"][mode], "title": line})
    if several and {run["main"] for run in report["runs"]} != {shared}:
        options.append({"value": charts.MAIN, "label": "each paper's own", "title": MIXED})
    return {
        "title": "Prediction",
        "options": options,
        "spread": "± std",
        "spread_title": "spread over the clients",
    }


def _results(report: Report) -> Card:
    columns = (
        "run", "prediction", "last: mean ± std", "best (round)", "worst client", "worst tenth",
        "balanced", "majority class", "chance", "rounds", "sent up", "sent down", "time",
    )  # fmt: skip
    rows, groups = [], []
    for i, run in enumerate(report["runs"]):
        for mode in run["modes"] or [None]:
            groups.append(i if mode == run["main"] else None)
            rows.append(_result(run, mode, report["titles"].get(mode)))
    table = PageTable(columns, rows, groups, strong=2, words=(0, 1))
    terms = {report["titles"][mode]: line for mode, line in report["modes"].items()}
    text = (
        "Test accuracy over the clients, in percent; std is the spread over clients. "
        "★ marks the prediction that the method's paper reports. Majority class: what always naming each "
        "client's most frequent class reaches; chance: what drawing one of the classes to choose from does. "
        "Balanced: every client's model on the same test of all classes alike, in the last round."
    )
    return Card("What the runs reached", text, (), [table], terms)


def _result(run: Run, mode: str | None, title: str | None) -> list[str]:
    found, rounds, first = run["results"].get(mode, {}), run["rounds"], mode == run["main"]
    costs = [
        f"{len(rounds['round'])} of {run['planned']}",
        *(number(sum(rounds[way]), "bytes") for way in ("up", "down")),
        number(sum(rounds["seconds"]) + sum(rounds["test_seconds"]), "seconds"),
    ]
    return [
        run["name"] if first else "",
        f"{title}{' ★' if first else ''}" if title else "not tested yet",
        f"{fixed(found.get('mean'), 2)} ± {fixed(found.get('std'), 2)}",
        f"{fixed(found['best'], 2)} ({found['best_round']})" if found.get("best_round") else "–",
        fixed(found.get("worst"), 1),
        fixed(found.get("worst10"), 1),
        fixed(found.get("balanced"), 1),
        fixed(run.get("majority"), 1),
        fixed(found.get("chance"), 1),
        *(costs if first else [""] * 4),
    ]


def _settings(runs: Sequence[Run]) -> Card:
    keys = dict.fromkeys(key for run in runs for key in run["config"])
    values = {key: [_value(run["config"].get(key)) for run in runs] for key in keys}
    different = [[key, *row] for key, row in values.items() if len(set(row)) > 1]
    same = [[key, row[0]] for key, row in values.items() if len(set(row)) == 1]
    names, words = [run["name"] for run in runs], range(len(runs) + 1)
    tables = [PageTable(["setting", *names], different, words=words)] if different else []
    title = "Settings that are equal in all runs" if different else "All settings"
    tables.append(PageTable(["run", "directory"], [[run["name"], run["path"]] for run in runs], words=(0, 1)))
    tables.append(PageTable(["setting", "value"], same, words=(0, 1), folded=title))
    text = "As resolved when the run began; `protofed run config.json` of a run directory repeats it."
    return Card("Configuration", text, (), tables)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "–" if value is None else json.dumps(value)
