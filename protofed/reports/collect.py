"""From run directories to the plain data of a report: lists, dicts and numbers, nothing else.

What the files of a run hold is read here. What needs the data set or the models is in `inside`, which
is imported only when asked for; where it cannot be had, the report says why and goes on without.

    {"made": …, "version": …, "modes": {mode: one line}, "runs": [run, …]}
    run: name, path, title, method, state, planned, config, modes, main, rounds, tests, clients, results,
         notes; if the method tells clients' weights, average; with the inside also split, space,
         margins, attention

Accuracies are in percent. What was not measured is None.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from .. import __version__
from ..config import resolve
from ..core.errors import ConfigError, ProtofedError
from ..runs.directory import RunDir
from ..runs.files import finite
from .modes import explain

STATS = ("mean", "std", "worst", "worst10", "pooled")
POINTS = 400  # test samples in an embedding
MOST_WEIGHTS = 20_000  # clients' weights that a page holds; of longer runs some rounds are left out


def collect(
    paths: Sequence[Path],
    points: int = POINTS,
    inside: bool = True,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """All that a report shows of these runs. Without `inside` no data set and no model is loaded."""
    directories = [RunDir.open(path) for path in paths]
    runs = [read_run(directory) for directory in directories]
    for run, directory in zip(runs, directories):
        if inside:
            if progress:
                progress(f"{directory.path}: embeddings and prototypes of the last checkpoint")
            run |= _inside(directory, points, run["notes"])
    return as_report(runs)


def as_report(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs under names that differ, with what they have in common."""
    for run, name in zip(runs, _names(runs)):
        run["name"] = name
    modes = dict.fromkeys(mode for run in runs for mode in run["modes"])
    report = {
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "version": __version__,
        "modes": explain(modes),
        "runs": runs,
    }
    return dict(finite(report))


def read_run(directory: RunDir) -> dict[str, Any]:
    """What the files of a run hold, as far as the run came."""
    config, lines = directory.config, directory.lines("metrics.jsonl")
    tests = [{**line, "acc": _scores(line)} for line in lines if line.get("acc")]
    modes = _modes(config, list(tests[-1]["acc"]) if tests else [])
    planned = int(config["rounds"]["rounds"])
    average = _average(lines)
    return {
        "path": str(directory.path),
        "title": f"{config['method']} ({config['preset']}) on {config['data']}, {config['partition']}, "
        f"{config['models']}, seed {config['seed']}",
        "method": config["method"],
        "state": "finished" if directory.summary is not None else "unfinished",
        "planned": planned,
        "config": _flat(config),
        "modes": modes,
        "main": modes[0] if modes else None,
        "rounds": _rounds(lines),
        "tests": _tests(tests, lines, modes),
        "clients": _clients(directory),
        "results": {mode: _result(tests, mode) for mode in modes},
        "notes": [],
        **({"average": average} if average["round"] else {}),
    }


def _inside(directory: RunDir, points: int, notes: list[str]) -> dict[str, Any]:
    from .inside import look_inside

    try:
        return look_inside(directory, points, notes)
    except ProtofedError as error:
        notes.append(f"charts of data and embeddings are left out: {error}")
        return {}


def _names(runs: Sequence[dict[str, Any]]) -> list[str]:
    """The shortest of method, folder and path that tells the runs apart."""
    for candidates in ([run["method"] for run in runs], [Path(run["path"]).name for run in runs]):
        if max(Counter(candidates).values()) == 1:
            return candidates
    return [f"{run['path']} #{number}" for number, run in enumerate(runs, 1)]


def _scores(line: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Accuracies, and the mIoU of segmentation as further modes."""
    return {
        **line["acc"],
        **{f"miou_{mode}": {"mean": value} for mode, value in line.get("miou", {}).items()},
    }


def _modes(config: dict[str, Any], found: list[str]) -> list[str]:
    """The prediction modes, the one that the method's paper reports first."""
    try:
        ordered = resolve(config).make_method().modes
    except ConfigError:  # a method that is not installed here
        return found
    return sorted(found, key=lambda mode: ordered.index(mode) if mode in ordered else len(ordered))


def _rounds(lines: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        "round": [line["round"] for line in lines],
        "loss": [line.get("train_loss") for line in lines],
        "clients": [line["clients"] for line in lines],
        "failed": [len(line.get("failed", {})) for line in lines],
        "seconds": [line["seconds"] for line in lines],
        "test_seconds": [line.get("eval_seconds", 0.0) for line in lines],
    }
    for way in ("up", "down"):
        columns[way] = [line[way]["bytes"] for line in lines]
        columns[f"{way}_meta"] = [line[way]["meta_bytes"] for line in lines]
        columns[f"{way}_params"] = [line[way]["params"] for line in lines]
        columns[f"{way}_wire"] = [line["wire"][way] if "wire" in line else None for line in lines]
    return columns


def _average(lines: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Weights of each round's participants in the average; of a long run evenly chosen rounds."""
    told = [line for line in lines if line.get("average", {}).get("weights")]
    total = sum(len(line["average"]["weights"]) for line in told)
    shown = told[:: max(1, -(-total // MOST_WEIGHTS))]
    return {
        "round": [line["round"] for line in shown],
        "weights": [line["average"]["weights"] for line in shown],
    }


def _tests(
    tests: Sequence[dict[str, Any]], lines: Sequence[dict[str, Any]], modes: Sequence[str]
) -> dict[str, Any]:
    sent = list(accumulate(line["up"]["bytes"] + line["down"]["bytes"] for line in lines))
    until = dict(zip((line["round"] for line in lines), sent))
    return {
        "round": [test["round"] for test in tests],
        "bytes": [until[test["round"]] for test in tests],
        "acc": {
            mode: {stat: [test["acc"].get(mode, {}).get(stat) for test in tests] for stat in STATS}
            for mode in modes
        },
    }


def _clients(directory: RunDir) -> dict[str, Any]:
    """Accuracy of each client in the last test."""
    lines = directory.lines("clients.jsonl")
    if not lines:
        return {"round": None, "ids": [], "acc": {}}
    return {"round": lines[-1]["round"], "ids": lines[-1]["clients"], "acc": lines[-1]["acc"]}


def _result(tests: Sequence[dict[str, Any]], mode: str) -> dict[str, Any]:
    values = [(test["acc"][mode]["mean"], -test["round"]) for test in tests if mode in test["acc"]]
    best, minus = max((pair for pair in values if pair[0] is not None), default=(None, 0))
    return {**{stat: tests[-1]["acc"][mode].get(stat) for stat in STATS}, "best": best, "best_round": -minus}


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"train": {"lr": 1}} → {"train.lr": 1}."""
    result: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            result |= _flat(value, f"{prefix}{key}.")
        else:
            result[prefix + key] = value
    return result
