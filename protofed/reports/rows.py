"""Runs that differ in the seed alone, as one row: means over the seeds, their spread, and each seed beside.

Seeds that are behind the others of their row are left out, as in `compare`: an average of different rounds
says nothing. Clients of different seeds hold different data, so they are pooled. What was looked
at inside a model (split, embeddings, prototypes, weights) is the first seed's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

Run = dict[str, Any]
INSIDE = ("split", "models", "space", "margins", "attention", "average")
INSIDE_NOTE = "data, embeddings, prototypes and weights of clients are shown of the first seed of each row"


def as_rows(runs: Sequence[Run], labels: Sequence[str | None]) -> list[Run]:
    """A row for each label; runs without one belong together if they differ in the seed alone."""
    rows: dict[str, list[Run]] = {}
    for run, label in zip(runs, labels):
        rows.setdefault(_key(run) if label is None else f"row {label}", []).append({**run, "row": label})
    found = []
    for of_row in rows.values():
        if len({run["config"]["seed"] for run in of_row}) == len(of_row):
            found.append(_merged(of_row))
        else:  # one run named twice: nothing to average
            found += [_merged([run]) for run in of_row]
    return found


def _key(run: Run) -> str:
    return json.dumps(
        {name: value for name, value in run["config"].items() if name != "seed"}, sort_keys=True
    )


def _merged(runs: Sequence[Run]) -> Run:
    if len(runs) == 1:
        return dict(runs[0])
    most = max(len(run["rounds"]["round"]) for run in runs)
    kept = [run for run in runs if len(run["rounds"]["round"]) == most]
    tested = max((run["tests"]["round"] for run in kept), key=len)
    kept = [run for run in kept if run["tests"]["round"] == tested]
    behind = [str(run["config"]["seed"]) for run in runs if run not in kept]
    if len(kept) == 1:
        return {**kept[0], "notes": [*kept[0]["notes"], *_behind(behind)]}
    first = kept[0]
    seeds = [run["config"]["seed"] for run in kept]
    modes = [mode for mode in first["modes"] if all(mode in run["modes"] for run in kept)]
    return {
        **{key: first[key] for key in INSIDE if key in first},
        **{key: first[key] for key in ("method", "planned", "main", "title", "row")},
        "path": ", ".join(run["path"] for run in kept),
        "state": "finished" if all(run["state"] == "finished" for run in kept) else "unfinished",
        "config": {**first["config"], "seed": ", ".join(map(str, seeds))},
        "modes": modes,
        "rounds": {key: _columns([run["rounds"][key] for run in kept]) for key in first["rounds"]},
        "tests": _tests(kept, modes),
        "clients": _clients(kept, modes),
        "results": {mode: _result([run["results"][mode] for run in kept]) for mode in modes},
        "majority": _mean([run["majority"] for run in kept]),
        "notes": [*_notes(kept), *_behind(behind)],
        "seeds": [{**run, "seed": seed} for run, seed in zip(kept, seeds)],
    }


def _behind(seeds: Sequence[str]) -> list[str]:
    return [f"seed {', '.join(seeds)} is behind the others and left out"] if seeds else []


def _notes(runs: Sequence[Run]) -> list[str]:
    """What several seeds say is said once, with the seeds that say it."""
    said: dict[str, list[str]] = {}
    for run in runs:
        for note in run["notes"]:
            said.setdefault(note, []).append(str(run["config"]["seed"]))
    return [note if len(of) == len(runs) else f"{note} (seed {', '.join(of)})" for note, of in said.items()]


def _mean(values: Sequence[Any]) -> float | None:
    """None where it is not known of every seed."""
    found = [value for value in values if value is not None and value == value]
    return fmean(found) if found and len(found) == len(values) else None


def _std(values: Sequence[Any]) -> float | None:
    return None if _mean(values) is None or len(values) < 2 else stdev(values)


def _columns(columns: Sequence[Sequence[Any]]) -> list[Any]:
    return [_mean(values) for values in zip(*columns)]


def _tests(runs: Sequence[Run], modes: Sequence[str]) -> dict[str, Any]:
    """Curves of means over seeds; "std" is the spread over seeds here, not over clients."""
    accuracy = {}
    for mode in modes:
        curves = [run["tests"]["acc"][mode] for run in runs]
        accuracy[mode] = {stat: _columns([curve[stat] for curve in curves]) for stat in curves[0]}
        accuracy[mode]["std"] = [_std(values) for values in zip(*(curve["mean"] for curve in curves))]
    first = runs[0]["tests"]
    sent = _columns([run["tests"]["bytes"] for run in runs])
    return {"round": first["round"], "bytes": sent, "acc": accuracy}


def _clients(runs: Sequence[Run], modes: Sequence[str]) -> dict[str, Any]:
    ids = [f"{client}, seed {run['config']['seed']}" for run in runs for client in run["clients"]["ids"]]
    pooled = {
        mode: [value for run in runs for value in run["clients"]["acc"].get(mode, [None] * _held(run))]
        for mode in modes
    }
    return {"round": runs[0]["clients"]["round"], "ids": ids, "acc": pooled}


def _held(run: Run) -> int:
    return len(run["clients"]["ids"])


def _result(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    rounds = [result["best_round"] for result in results if result["best_round"] is not None]
    mean = {stat: _mean([result[stat] for result in results]) for stat in results[0] if stat != "best_round"}
    ends = dict.fromkeys(str(end(rounds)) for end in (min, max) if rounds)
    return {**mean, "best_round": "–".join(ends) or None, "seeds": _std([one["mean"] for one in results])}
