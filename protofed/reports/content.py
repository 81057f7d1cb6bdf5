"""The page as plain data: header, sections, cards, tables and the charts in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import charts, charts_inside
from .charts import Report, Run
from .spec import Chart, first_shown, look, plain
from .style import fixed, number

COMMON = ("data", "partition", "models", "clients", "rounds.rounds", "seed")  # in the header, if equal
TEXTS = {
    "result": "Test accuracy over the clients, in percent; std is the spread over clients. "
    "★ marks the prediction that the method's paper reports.",
    "rounds": "Mean over the tested clients; “± std” adds the spread over them as a band.",
    "bytes": "Payload up and down of all clients until the test, four bytes a parameter; logarithmic.",
    "worst10": "Mean accuracy of the tenth of the clients that fare worst in that test.",
    "loss": "Mean over a round's participants of all terms of the method's loss; methods are not comparable.",
    "spread": "A dot is a client, the box the middle half, the line the median, the diamond the mean.",
    "space": "t-SNE of test samples with the prototypes, each run for itself: near and far mean something, "
    "directions and distances between groups do not. Choose classes to see them alone.",
    "margin": "Distance of a class's prototype to the nearest of another class. At a client: among its own "
    "prototypes, the largest over clients. Global: among the server's prototypes, where the method has any.",
    "weights": "Of all participants in all rounds: how often a weight between two values occurs.",
    "weights-rounds": "Line: the median over a round's participants; band: from the smallest to the largest.",
    "attention": "Weight of each participant of the last round in the average.",
    "config": "As resolved when the run began; `protofed run config.json` of a run directory repeats it.",
}


@dataclass(frozen=True)
class Table:
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
    """Charts that share a legend, with their table; or tables and explained terms."""

    id: str
    title: str
    text: str
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    terms: dict[str, str] | None = None
    wide: bool = False


def page(report: Report) -> dict[str, Any]:
    """All that the page shows of a report."""
    data = {
        **_header(report),
        "groups": [{"label": run["name"], **look(i)} for i, run in enumerate(report["runs"])],
        "bar": _bar(report),
        "sections": [
            {"id": title.split()[0].lower(), "title": title, "cards": cards}
            for title, cards in _sections(report).items()
            if cards
        ],
    }
    return dict(plain(data))


def figures(report: Report) -> list[Chart]:
    """Every chart of the page before any choice."""
    found = [chart for cards in _sections(report).values() for card in cards for chart in card.charts]
    return [found[i] for i in first_shown(found)]


def _sections(report: Report) -> dict[str, list[Card]]:
    return {
        "Results": [_results(report)],
        "Accuracy": _accuracy(report),
        "Clients": _clients(report),
        "Data": _data(report),
        "Embeddings": _panels("space", "Samples and prototypes", charts_inside.embeddings(report)),
        "Prototypes": _panels("margin", "Prototype margins", charts_inside.margins(report)),
        "Weights of the clients": _weights(report),
        "Cost": _cost(report),
        "Settings": [_settings(report["runs"])],
    }


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
    first = "all" if len(report["runs"]) == 1 else "each paper's own"
    options = [{"value": "", "label": first, "title": ""}]
    for mode, line in report["modes"].items():
        options.append({"value": mode, "label": report["titles"][mode], "title": line})
    return {
        "title": "Prediction",
        "options": options,
        "spread": "± std",
        "spread_title": "spread over the clients",
    }


def _results(report: Report) -> Card:
    columns = (
        "run", "prediction", "last: mean ± std", "best (round)", "worst client", "worst tenth", "rounds",
        "sent up", "sent down", "time",
    )  # fmt: skip
    rows, groups = [], []
    for i, run in enumerate(report["runs"]):
        for mode in run["modes"] or [None]:
            groups.append(i if mode == run["main"] else None)
            rows.append(_result(run, mode, report["titles"].get(mode)))
    table = Table(columns, rows, groups, strong=2, words=(0, 1))
    terms = {report["titles"][mode]: line for mode, line in report["modes"].items()}
    return Card("result", "What the runs reached", TEXTS["result"], (), [table], terms, wide=True)


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
        *(costs if first else [""] * 4),
    ]


def _accuracy(report: Report) -> list[Card]:
    by_round = charts.accuracy_by_round
    mean = by_round(report, "mean", "accuracy-rounds", "accuracy against rounds")
    worst = by_round(report, "worst10", "accuracy-worst10", "accuracy of the worst tenth")
    return [
        Card("rounds", "Accuracy against rounds", TEXTS["rounds"], [mean]),
        Card("bytes", "Accuracy against bytes sent", TEXTS["bytes"], [charts.accuracy_by_bytes(report)]),
        Card("worst10", "The worst tenth of the clients", TEXTS["worst10"], [worst]),
        Card("loss", "Training loss", TEXTS["loss"], [charts.loss(report)]),
    ]


def _clients(report: Report) -> list[Card]:
    worst = charts.worst_clients(report)
    if not worst:
        return []
    text = (
        "Those with the lowest accuracy in each run, and how they fare in the others."
        if len(report["runs"]) > 1
        else "Those with the lowest accuracy under each prediction."
    )
    spread = [charts.client_accuracies(report)]
    return [
        Card("spread", "Accuracy of each client, last test", TEXTS["spread"], spread),
        Card("worst", "The worst clients", text, worst),
    ]


def _data(report: Report) -> list[Card]:
    found = charts_inside.splits(report)
    cards = []
    for n, (runs, chart) in enumerate(found):
        shown, held = len(chart.x.names), len(runs[0]["split"]["samples"])
        some = f", the first {shown} of {held} clients" if held > shown else ""
        whose = "The same for all runs." if len(runs) > 1 else ""
        if len(found) > 1:
            whose = f"Runs: {', '.join(run['name'] for run in runs)}."
        text = f"Area: training samples of a class at a client{some}. {whose}"
        cards.append(Card(f"split-{n}", "Samples per client and class", text, [chart], wide=True))
    return cards


def _panels(key: str, title: str, panels: Sequence[Chart]) -> list[Card]:
    return [Card(key, title, TEXTS[key], panels, wide=True)] if panels else []


def _weights(report: Report) -> list[Card]:
    titles = {"weights": "Weights in all rounds", "weights-rounds": "Weights by round"}
    told = [charts_inside.weights_histogram(report), charts_inside.weights_by_round(report)]
    cards = [Card(one.name, titles[one.name], TEXTS[one.name], [one]) for one in told if one]
    return [*cards, *_panels("attention", "The last round", charts_inside.attention(report))]


def _cost(report: Report) -> list[Card]:
    if not any(run["rounds"]["round"] for run in report["runs"]):
        return []
    sent, time = charts.communication(report), charts.duration(report)
    return [
        Card("sent", "Communication", "Sum over rounds and clients.", [sent]),
        Card("time", "Time", "Wall clock of the run.", [time]),
    ]


def _settings(runs: Sequence[Run]) -> Card:
    keys = dict.fromkeys(key for run in runs for key in run["config"])
    values = {key: [_value(run["config"].get(key)) for run in runs] for key in keys}
    different = [[key, *row] for key, row in values.items() if len(set(row)) > 1]
    same = [[key, row[0]] for key, row in values.items() if len(set(row)) == 1]
    names, words = [run["name"] for run in runs], range(len(runs) + 1)
    tables = [Table(["setting", *names], different, words=words)] if different else []
    title = "Settings that are equal in all runs" if different else "All settings"
    tables.append(Table(["run", "directory"], [[run["name"], run["path"]] for run in runs], words=(0, 1)))
    tables.append(Table(["setting", "value"], same, words=(0, 1), folded=title))
    return Card("config", "Configuration", TEXTS["config"], (), tables, wide=True)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "–" if value is None else json.dumps(value)
