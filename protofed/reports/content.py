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
COMMON = (  # in the header, if equal
    "preset", "data", "partition", "models", "clients", "rounds.rounds", "train.epochs", "train.batch_size",
    "train.lr", "train.momentum", "rounds.participation", "seed",
)  # fmt: skip
MOST_ABOUT = 8  # rows whose options stand in the header; those of more are in the settings alone


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
    many = len(names) > 4 or charts.several_seeds(report)
    common = [key for key in COMMON if len({str(run["config"].get(key)) for run in runs}) == 1]
    done = [len(run["rounds"]["round"]) for run in runs]
    notes = _notes(runs)
    notes = [*report.get("notes", []), *notes]
    header: dict[str, Any] = {
        "title": _title(report) if many and len(names) > 1 else " · ".join(names),
        "subtitle": " · ".join(_setting(runs[0], key) for key in common),
        "about": _about(runs),
        "footer": f"protofed {report['version']}, {report['made']}",
    }
    if "live" in report:
        header["live"] = {"on": report["live"], "done": done[0], "planned": runs[0]["planned"]}
    else:
        halves = [(run, n) for run, n in zip(runs, done) if run["state"] != "finished"]
        notes = [*(f"{run['name']}: {n} of {run['planned']} rounds done" for run, n in halves), *notes]
    return {**header, "notes": notes}


def _notes(runs: Sequence[Run]) -> list[str]:
    """What every run says is said once, without a name."""
    said: dict[str, list[str]] = {}
    for run in runs:
        for note in run["notes"]:
            said.setdefault(note, []).append(run["name"])
    return [
        note if len(names) == len(runs) > 1 else f"{', '.join(names)}: {note}" for note, names in said.items()
    ]


def _title(report: Report) -> str:
    runs = report["runs"]
    kind = "methods" if len({run["method"] for run in runs}) == len(runs) else "rows"
    if not charts.several_seeds(report):
        return f"{len(runs)} {'runs' if kind == 'rows' else kind} compared"
    seeds = list(dict.fromkeys(len(run.get("seeds", [0])) for run in runs))
    return f"{len(runs)} {kind} compared over {'–'.join(map(str, (sorted(seeds))))} seeds"


def _setting(run: Run, key: str) -> str:
    word = {"seed": "seeds" if "seeds" in run else "seed"}.get(key, key.split(".")[-1].replace("_", " "))
    return f"{word} {run['config'].get(key)}"


def _about(runs: Sequence[Run]) -> list[str]:
    """Options of the methods, and presets where they differ."""
    if len(runs) > MOST_ABOUT:
        return []
    presets = len({str(run["config"].get("preset")) for run in runs}) > 1
    lines = []
    for run in runs:
        options = {
            k.removeprefix("options."): v for k, v in run["config"].items() if k.startswith("options.")
        }
        said = [f"preset {run['config'].get('preset')}"] if presets else []
        said += [f"{name} {_value(value)}" for name, value in options.items()]
        if said:
            lines.append(f"{run['name']}: {', '.join(said)}")
    return lines


def _bar(report: Report) -> dict[str, Any]:
    several, shared = len(report["runs"]) > 1, charts.shared_mode(report)
    seeds = charts.several_seeds(report)
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
        "spread": "" if seeds else "± std",
        "spread_title": "spread over the clients",
        "singles": "each seed" if seeds else "",
    }


def _results(report: Report) -> Card:
    seeds = charts.several_seeds(report)
    columns = (
        "method" if seeds else "run", "prediction",
        *(("last ± seeds", "± clients") if seeds else ("last: mean ± std",)), "best (round)",
        "worst client", "worst tenth", "balanced", "majority class", "chance", "rounds",
        "sent up", "sent down", "time",
    )  # fmt: skip
    rows, groups = [], []
    for i, run in enumerate(report["runs"]):
        for mode in run["modes"] or [None]:
            groups.append(i if mode == run["main"] else None)
            rows.append(_result(run, mode, report["titles"].get(mode), seeds))
    tables = [PageTable(columns, rows, groups, strong=2, words=(0, 1))]
    if seeds:
        tables.append(_each_seed(report))
    terms = {report["titles"][mode]: line for mode, line in report["modes"].items()}
    spread = "std is the spread over clients"
    if seeds:
        spread = "mean over clients, then over seeds; ± are standard deviations over seeds and over clients"
    text = (
        f"Test accuracy over the clients, in percent; {spread}. "
        "★ marks the prediction that the method's paper reports. Majority class: what always naming each "
        "client's most frequent class reaches; chance: what drawing one of the classes to choose from does. "
        "Balanced: every client's model on the same test of all classes alike, in the last round."
    )
    return Card("What the runs reached", text, (), tables, terms)


def _each_seed(report: Report) -> PageTable:
    """What every run reached, folded."""
    rows = [
        [
            run["name"], str(seed["seed"]), report["titles"][mode], fixed(seed["results"][mode]["mean"], 2),
            f"{fixed(seed['results'][mode]['best'], 2)} ({seed['results'][mode]['best_round']})",
            fixed(seed["results"][mode]["worst"], 1), seed["path"],
        ]
        for run in report["runs"] for mode in run["modes"] for seed in run.get("seeds", [])
    ]  # fmt: skip
    columns = ("method", "seed", "prediction", "last", "best (round)", "worst client", "directory")
    return PageTable(columns, rows, words=(0, 2, 6), folded="Each seed")


def _result(run: Run, mode: str | None, title: str | None, seeds: bool) -> list[str]:
    found, rounds, first = run["results"].get(mode, {}), run["rounds"], mode == run["main"]
    costs = [
        f"{len(rounds['round'])} of {run['planned']}",
        *(number(sum(rounds[way]), "bytes") for way in ("up", "down")),
        number(sum(rounds["seconds"]) + sum(rounds["test_seconds"]), "seconds"),
    ]
    return [
        run["name"] if first else "",
        f"{title}{' ★' if first else ''}" if title else "not tested yet",
        *_reached(found, seeds),
        f"{fixed(found['best'], 2)} ({found['best_round']})" if found.get("best_round") else "–",
        fixed(found.get("worst"), 1),
        fixed(found.get("worst10"), 1),
        fixed(found.get("balanced"), 1),
        fixed(run.get("majority"), 1),
        fixed(found.get("chance"), 1),
        *(costs if first else [""] * 4),
    ]


def _reached(found: dict[str, Any], seeds: bool) -> list[str]:
    mean, clients = fixed(found.get("mean"), 2), fixed(found.get("std"), 2)
    return [f"{mean} ± {fixed(found.get('seeds'), 2)}", clients] if seeds else [f"{mean} ± {clients}"]


def _settings(runs: Sequence[Run]) -> Card:
    keys = dict.fromkeys(key for run in runs for key in run["config"])
    values = {key: [_value(run["config"].get(key)) for run in runs] for key in keys}
    different = [[key, *row] for key, row in values.items() if len(set(row)) > 1]
    same = [[key, row[0]] for key, row in values.items() if len(set(row)) == 1]
    names, words = [run["name"] for run in runs], range(len(runs) + 1)
    tables = [PageTable(["setting", *names], different, words=words)] if different else []
    title = "Settings that are equal in all runs" if different else "All settings"
    tables.append(
        PageTable(
            ["run", "directory"], [[run["name"], path] for run in runs for path in _paths(run)], words=(0, 1)
        )
    )
    tables.append(PageTable(["setting", "value"], same, words=(0, 1), folded=title))
    text = "As resolved when the run began; `protofed run config.json` of a run directory repeats it."
    return Card("Configuration", text, (), tables)


def _paths(run: Run) -> list[str]:
    return [seed["path"] for seed in run["seeds"]] if "seeds" in run else [run["path"]]


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "–" if value is None else json.dumps(value)
