"""From run directories to the plain data of a report: lists, dicts and numbers, nothing else.

What the files of a run hold is read here. What needs the data set or the models is in `inside`, which
is imported only when asked for; where it cannot be had, the report says why and goes on without.

    {"made": …, "version": …, "modes": {mode: one line}, "titles": {mode: title}, "runs": [run, …]}
    run: name, path, title, method, state, planned, config, modes, main, rounds, tests, clients, results,
         majority, notes; if the method tells clients' weights, average; with the inside also split, space,
         margins, attention; of several seeds it is their mean (see rows.py), with each of them in seeds

Accuracies are in percent. What was not measured is None.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import ProtofedError
from ..core.version import VERSION as __version__
from ..runs.attacked import attack_lines
from ..runs.directory import RunDir
from ..runs.files import finite
from ..runs.modes import explain, title
from ..runs.outcome import WAYS, Outcome
from ..runs.records import STATS
from .rows import INSIDE, INSIDE_NOTE, as_rows
from .study_folder import named_runs

POINTS = 400  # test samples in an embedding
HASHED = re.compile(r"-s\d+-[0-9a-f]{12}$")  # a run of a study: METHOD-sSEED-HASH
MOST_WEIGHTS = 20_000  # clients' weights that a page holds; of longer runs some rounds are left out


def collect(
    paths: Sequence[Path],
    points: int = POINTS,
    inside: bool = True,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """All that a report shows of these runs, or of those of a study. Without `inside` no data set and no
    model is loaded."""
    named, notes = named_runs(paths)
    runs = as_rows([read_run(RunDir.open(one.path)) for one in named], [one.row for one in named])
    for run in runs if inside else []:
        directory = RunDir.open(Path(run["seeds"][0]["path"] if "seeds" in run else run["path"]))
        if progress:
            progress(f"{directory.path}: embeddings and prototypes of the last checkpoint")
        run |= _inside(directory, points, run["notes"])
    if any("seeds" in run and set(INSIDE) & run.keys() for run in runs):
        notes.append(INSIDE_NOTE)
    return {**as_report(runs), "notes": notes}


def as_report(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs under names that differ, with what they have in common."""
    for run, name in zip(runs, _names(runs)):
        run["name"] = name
    modes = dict.fromkeys(mode for run in runs for mode in run["modes"])
    report = {
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "version": __version__,
        "modes": explain(modes),
        "titles": {mode: title(mode) for mode in modes},
        "runs": runs,
    }
    return dict(finite(report))


def read_run(directory: RunDir) -> dict[str, Any]:
    """What the files of a run hold, as far as the run came."""
    run = Outcome.read(directory.path)
    average = _average(run)
    return {
        "path": str(run.path),
        "title": run.title,
        "method": run.config["method"],
        "state": "finished" if run.finished else "unfinished",
        "planned": run.planned_rounds,
        "config": {**_flat(run.config), "classes": ", ".join(run.class_names) or None},
        "modes": run.modes,
        "main": run.main,
        "rounds": _rounds(run),
        "tests": _tests(run),
        "clients": _clients(run),
        "results": {mode: _result(run, mode) for mode in run.modes},
        "majority": run.majority,
        "notes": _notes(run),
        **({"average": average} if average["round"] else {}),
    }


def _notes(run: Outcome) -> list[str]:
    """What a reader has to know before the numbers."""
    ended = [f"ended after {run.rounds} of {run.planned_rounds} rounds: {run.ended}"] if run.ended else []
    return [
        *attack_lines(run),
        *([run.privacy] if run.privacy else []),
        *ended,
        *(f"warning: not one training: {change}" for change in run.about.changes),
        *(f"warning: {finding.text}" for finding in run.findings),
        *(f"data: {note}" for note in run.about.notes),
    ]


def _inside(directory: RunDir, points: int, notes: list[str]) -> dict[str, Any]:
    from .inside import look_inside

    try:
        return look_inside(directory, points, notes)
    except ProtofedError as error:
        notes.append(f"charts of data and embeddings are left out: {error}")
        return {}


def _names(runs: Sequence[dict[str, Any]]) -> list[str]:
    """The rows of a study; else the shortest of method, folder and path that tells the runs apart. Folders of
    a study have hashes in their names: runs from there are told apart by their settings."""
    rows = [run.get("row") or run["method"] for run in runs]
    folders = [Path(run["path"].split(", ")[0]) for run in runs]
    of_study = any(folder.parent.name == "runs" and HASHED.search(folder.name) for folder in folders)
    for candidates in (rows, _by_settings(runs) if of_study else [folder.name for folder in folders]):
        if max(Counter(candidates).values()) == 1:
            return candidates
    return [f"{run['path']} #{number}" for number, run in enumerate(runs, 1)]


def _by_settings(runs: Sequence[dict[str, Any]]) -> list[str]:
    """ "fedproto, lam 0.1": the method, and in what the runs differ."""
    keys = dict.fromkeys(key for run in runs for key in run["config"] if key not in ("method", "classes"))
    told = [key for key in keys if len({str(run["config"].get(key)) for run in runs}) > 1]
    return [
        ", ".join([run["method"], *(f"{key.split('.')[-1]} {run['config'].get(key)}" for key in told)])
        for run in runs
    ]


def _rounds(run: Outcome) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        "round": run.column("round"),
        "loss": run.column("train_loss"),
        "clients": run.column("clients"),
        "failed": [len(run.failures.get(line["round"], {})) for line in run.lines],
        "seconds": run.column("seconds"),
        "test_seconds": run.column("eval_seconds", missing=0.0),
    }
    for way in WAYS:
        columns[way] = run.column(way, "bytes")
        columns[f"{way}_meta"] = run.column(way, "meta_bytes")
        columns[f"{way}_params"] = run.column(way, "params")
        columns[f"{way}_wire"] = run.column("wire", way)
    return columns


def _average(run: Outcome) -> dict[str, list[Any]]:
    """Weights of each round's participants in the average; of a long run evenly chosen rounds."""
    told = [(round, average["weights"]) for round, average in run.averages.items()]
    total = sum(len(weights) for _, weights in told)
    shown = told[:: max(1, -(-total // MOST_WEIGHTS))]
    return {"round": [round for round, _ in shown], "weights": [weights for _, weights in shown]}


def _tests(run: Outcome) -> dict[str, Any]:
    sent = run.bytes_until
    return {
        "round": [test.round for test in run.tests],
        "bytes": [sent[test.round] for test in run.tests],
        "acc": {mode: {stat: run.curve(mode, stat) for stat in STATS} for mode in run.modes},
    }


def _clients(run: Outcome) -> dict[str, Any]:
    """Accuracy of each client in the last test."""
    line = run.client_test()
    if line is None:
        return {"round": None, "ids": [], "acc": {}}
    return {"round": line["round"], "ids": line["clients"], "acc": line["acc"]}


def _result(run: Outcome, mode: str) -> dict[str, Any]:
    best, best_round = run.best(mode)
    reached = {stat: run.last(mode, stat) for stat in STATS}
    levels = {"chance": run.chance(mode), "balanced": run.balanced(mode)}
    return {**reached, "best": best, "best_round": best_round, **levels}


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"train": {"lr": 1}} → {"train.lr": 1}."""
    result: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            result |= _flat(value, f"{prefix}{key}.")
        else:
            result[prefix + key] = value
    return result
