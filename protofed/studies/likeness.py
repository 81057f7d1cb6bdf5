"""Whether rows of a table were trained alike: on the same data, with the same settings of training.

A method that trains longer, on other samples or with a better learning rate, is not better for it. What is
unequal is listed under a table, and neither a claim nor a difference is judged across it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from ..core.algorithm import methods
from ..core.errors import ProtofedError
from ..runs.contents import DATA, SPLIT
from ..runs.outcome import Outcome
from ..trust.settings import Trust
from .plan import SYSTEM
from .statistics import mean

WORDS = {"batch_size": "batch size", "steps": "local steps"}  # else as the setting is called
BLANK = {"eval_clients": "all", "sampling": "", "public": "", "sample": "by participation"}  # for None
OWN = "the method's own"  # whose first weights a client takes is the method's to say
WIRE = ("upload", "max_norm", "min_clients", "too_few")  # settings of transport that change numbers


class Training(NamedTuple):
    """How the runs of a row were trained: settings by name, as text. What is not known is "" or NaN, and
    unequal to nothing."""

    settings: Mapping[str, str] = {}
    steps: float = math.nan  # of a client in a round
    data: str = ""
    seeds: tuple[int, ...] = ()


def training_of(runs: Sequence[Outcome]) -> Training:
    """Of the runs of one row or cell. Steps are those of runs without stragglers, where some are: what
    becomes of late clients' work is the method's own choice, and not unequal training."""
    found = [training_by(run.config) for run in runs]
    names = dict.fromkeys(name for one in found for name in one)
    return Training(
        {name: joined_texts([one.get(name, "") for one in found]) for name in names},
        mean([run.local_steps for run in _punctual(runs)]),
        joined_texts([f"{run.seed} {data_of(run)}" for run in runs]),
        tuple(sorted({run.seed for run in runs})),
    )


def _punctual(runs: Sequence[Outcome]) -> Sequence[Outcome]:
    return [run for run in runs if not run.config.get("rounds", {}).get("stragglers")] or runs


def training_by(config: Mapping[str, Any]) -> dict[str, str]:
    """All that decides how clients are trained and which are tested, except the rounds: those are compared
    as they are done."""
    system, transport = config.get("system", {}), config.get("transport", {})
    found: dict[str, Any] = {name: config.get(name, "") for name in ("models", "public")}
    if found["public"]:
        found["public_samples"] = config.get("public_samples", "")
    found |= {**config.get("train", {}), **config.get("rounds", {})}
    found |= {name: system[name] for name in SYSTEM if name in system}
    found |= {**asdict(Trust()), **(config.get("trust") or {})}  # runs of earlier versions have none of it
    if system.get("engine") == "flower":
        found |= {name: transport[name] for name in WIRE if name in transport}
    found.pop("rounds", None)
    if found.get("init") == _own_init(config):
        found["init"] += f", {OWN}"
    return {name: BLANK.get(name, "none") if value is None else str(value) for name, value in found.items()}


def _own_init(config: Mapping[str, Any]) -> str:
    try:
        preset = methods[config["method"]].presets[config["preset"]]
    except (KeyError, ProtofedError):  # of a method that is not here
        return ""
    return str(preset.train.get("init", "own"))


def data_of(run: Outcome) -> str:
    """The samples of a run and who has them: by content, or as written where that is not known."""
    found = run.about.fingerprints
    if DATA in found:
        return f"{found[DATA]} {found.get(SPLIT, '')}"
    return ", ".join(str(run.config.get(name)) for name in ("data", "partition", "clients"))


def different(one: Training, two: Training) -> list[str]:
    """In what two rows are unequal."""
    names = [name for name in one.settings if name in two.settings]
    pairs = {name: (one.settings[name], two.settings[name]) for name in names}
    found = [name for name, values in pairs.items() if all(values) and not _alike(*values)]
    if one.seeds and two.seeds and one.seeds != two.seeds:
        found.append("seeds")  # other splits too, so that data and steps need not be equal
    else:
        found += ["steps"] if abs(one.steps - two.steps) > 0.05 else []  # NaN: not known
        found += ["data"] if one.data != two.data else []
    return [WORDS.get(name, name) for name in found]


def _alike(one: str, two: str) -> bool:
    """Equal, or in both rows what the method itself asks for, in all runs; cells of earlier calls have `OWN`
    alone."""
    plain = [text.removesuffix(f", {OWN}") for text in (one, two)]
    own = one.endswith(OWN) and two.endswith(OWN) and not any(", " in text for text in plain)
    return len(set(plain)) == 1 or own


def unequal(rows: Mapping[str, Sequence[Outcome]], varied: Collection[str] = ()) -> list[str]:
    """A line for each thing in which rows differ, with whose value is what; nothing of settings that are
    `varied` on purpose. Rows are compared as far as all of them came."""
    rows = {row: runs for row, runs in rows.items() if runs}
    if len(rows) < 2:
        return []
    least = min(run.rounds for runs in rows.values() for run in runs)
    seeds = set.intersection(*({run.seed for run in runs} for runs in rows.values()))
    alike = {
        row: training_of([run.until(least) for run in runs if run.seed in seeds or not seeds])
        for row, runs in rows.items()
    }
    several = list(alike.values())
    pairs = ((one, two) for i, two in enumerate(several) for one in several[:i])
    names = dict.fromkeys(name for one, two in pairs for name in different(one, two))
    hidden = {WORDS.get(name, name) for name in varied}
    hidden |= {"data"} if {"partition", "clients"} & hidden else set()
    planned = {row: str(runs[0].planned_rounds) for row, runs in rows.items()}
    lines = [] if len(set(planned.values())) < 2 or "rounds" in hidden else [_line("rounds", planned)]
    return lines + [_line(name, _values(name, alike, rows)) for name in names if name not in hidden]


def _values(
    word: str, alike: Mapping[str, Training], rows: Mapping[str, Sequence[Outcome]]
) -> dict[str, str]:
    """What each row has of a thing."""
    if word == "data":
        return {row: _written(runs[0]) for row, runs in rows.items()}
    if word == WORDS["steps"]:
        return {row: f"{one.steps:.1f} of a client in a round" for row, one in alike.items()}
    name = next((name for name, said in WORDS.items() if said == word), word)
    return {row: one.settings.get(name, "") or "not known" for row, one in alike.items()}


def _written(run: Outcome) -> str:
    """Data as written, with the beginning of its fingerprints: one path may have held several."""
    config, found = run.config, run.about.fingerprints
    text = f"{config.get('data')}, {config.get('partition')}, {config.get('clients')} clients"
    marks = [found[name][:6] for name in (DATA, SPLIT) if name in found]
    return f"{text} [{' '.join(marks)}]" if marks else text


def _line(name: str, values: Mapping[str, str]) -> str:
    rows: dict[str, list[str]] = {}
    for row, value in values.items():
        rows.setdefault(value, []).append(row)
    return f"unequal {name}: " + "; ".join(f"{value} ({', '.join(who)})" for value, who in rows.items())


def joined_texts(values: Sequence[str]) -> str:
    """Each once."""
    return ", ".join(dict.fromkeys(values))
