"""A tournament: methods × settings × seeds, every method tuned with the same number of trials.

1. Trials. In each setting each entrant gets the same number of configurations: its defaults, then draws from
   its space (the learning rate, the same values for all, and one or two options of its own). Every client
   holds out a share of its training samples; nothing looks at the test samples.
2. Choice. The trial and the prediction mode with the highest accuracy on the held-out samples. Modes that
   choose among the client's own classes alone are left out unless the file says otherwise: they are told
   more than the others.
3. Finals. The chosen configuration with seeds that no trial has seen (other splits, other starts), read in
   the chosen mode.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..config import resolve
from ..core.errors import ConfigError, unknown
from ..core.rng import numpy_generator
from ..runs.modes import AMONG_OWN
from ..runs.outcome import Outcome
from .plan import Planned, common_training, read_method
from .runner import FINISHED, Done
from .sweep import Point, label, point_layer

HERE = Path(__file__).parent / "tournaments"
TOP = (
    "about",
    "entrants",
    "settings",
    "space",
    "shared",
    "trials",
    "seeds",
    "first_seed",
    "validation",
    "own_classes",
)


@dataclass(frozen=True)
class Tournament:
    """What a tournament's file says."""

    name: str
    about: str
    entrants: tuple[str, ...]  # as `compare` takes methods; the first is the one that others are held against
    settings: Mapping[str, Mapping[str, Any]]  # `options` of a setting: method → its options
    space: Mapping[str, Mapping[str, Sequence[Any]]]  # entrant, or "all" → option → values
    shared: Mapping[str, Any]
    trials: int = 3
    seeds: int = 3
    first_seed: int = 0  # of the finals; give seeds on which nobody has looked while choosing defaults
    validation: float = 0.2
    own_classes: bool = False


@dataclass(frozen=True)
class Chosen:
    """What an entrant takes from its trials in a setting to the finals."""

    point: Point
    mode: str
    validated: float  # accuracy on held-out samples


Match = tuple[str, str]  # setting, entrant


def known_tournaments() -> list[str]:
    """Names of the tournaments that come with protofed."""
    return sorted(path.stem for path in HERE.glob("*.toml"))


def read_tournament(named: str) -> Tournament:
    """By name, or from a file."""
    path = Path(named)
    if path.suffix != ".toml":
        if named not in known_tournaments():
            raise ConfigError(f"{unknown('tournament', named, known_tournaments())} (or give a .toml file)")
        path = HERE / f"{named}.toml"
    try:
        found = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"tournament {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"tournament {path}: not valid TOML: {error}") from error
    return _checked(path.stem, found)


def _checked(name: str, found: dict[str, Any]) -> Tournament:
    where = f"tournament {name}"
    for key in found:
        if key not in TOP:
            raise ConfigError(f"{where}: {unknown('key', key, TOP)}")
    if len(found.get("entrants", ())) < 2 or not found.get("settings"):
        raise ConfigError(f"{where}: needs `entrants` (at least two methods) and [settings.NAME] tables")
    strange = [key for key in found.get("space", {}) if key not in ("all", *found["entrants"])]
    if strange:
        raise ConfigError(f"{where}: space: {unknown('entrant', strange[0], ['all', *found['entrants']])}")
    named = {read_method(entrant).method for entrant in found["entrants"]}
    for setting, given in found["settings"].items():
        for method in given.get("options", {}):
            if method not in named:
                raise ConfigError(f"{where}: settings.{setting}.options: {unknown('method', method, named)}")
    tournament = Tournament(
        name,
        str(found.get("about", "")),
        tuple(found["entrants"]),
        found["settings"],
        found.get("space", {}),
        found.get("shared", {}),
        **{
            key: found[key]
            for key in ("trials", "seeds", "first_seed", "validation", "own_classes")
            if key in found
        },
    )
    trials = [trials_in(tournament, setting) for setting in tournament.settings]
    whole = all(isinstance(n, int) and n >= 1 for n in (*trials, tournament.trials, tournament.seeds))
    if not whole or not 0 < tournament.validation < 1:
        raise ConfigError(
            f"{where}: trials and seeds are whole numbers from 1, validation is between 0 and 1"
        )
    return tournament


def points(tournament: Tournament, setting: str, entrant: str) -> list[Point]:
    """The trials of an entrant: its defaults first, then different draws from its space."""
    space = {**tournament.space.get("all", {}), **tournament.space.get(entrant, {})}
    names = list(space)
    every = [dict(zip(names, map(str, values))) for values in itertools.product(*space.values())]
    drawn = numpy_generator(0, "trials", setting, entrant).permutation(len(every)).tolist() if names else []
    return [{}, *(every[i] for i in drawn)][: trials_in(tournament, setting)]


def trials_in(tournament: Tournament, setting: str) -> int:
    """How many configurations every entrant may try there: large settings can allow fewer."""
    given: int = tournament.settings[setting].get("trials", tournament.trials)
    return given


def plan_trials(tournament: Tournament) -> dict[Match, list[tuple[Point, Planned]]]:
    """All trials; their seed is none of the finals'."""
    seed = tournament.first_seed + tournament.seeds
    return {
        (setting, entrant): [
            (point, _planned(tournament, setting, entrant, point, seed))
            for point in points(tournament, setting, entrant)
        ]
        for setting in tournament.settings
        for entrant in tournament.entrants
    }


def plan_finals(tournament: Tournament, chosen: Mapping[Match, Chosen]) -> dict[Match, list[Planned]]:
    """The chosen configurations, all seeds."""
    return {
        match: [_planned(tournament, *match, found.point, seed) for seed in _seeds(tournament)]
        for match, found in chosen.items()
    }


def _seeds(tournament: Tournament) -> range:
    return range(tournament.first_seed, tournament.first_seed + tournament.seeds)


def _planned(tournament: Tournament, setting: str, entrant: str, point: Point, seed: int) -> Planned:
    choice = read_method(entrant)
    weakest, strongest = choice.layers()
    given = {**tournament.shared, **tournament.settings[setting], "validation": tournament.validation}
    given.pop("trials", None)
    options = {"options": given.pop("options", {}).get(choice.method, {})}
    layers = (weakest, common_training(given), options, strongest)
    config = resolve(*layers, point_layer(resolve(*layers), point))
    row = f"{setting}: {entrant}" + (f" ({label(point)})" if point else "")
    return Planned(row, replace(config, seed=seed))


def choose(
    tournament: Tournament,
    plan: Mapping[Match, Sequence[tuple[Point, Planned]]],
    done: Mapping[str, Done],
) -> dict[Match, Chosen]:
    """The best trial and mode of each match whose trials are all over; without those that cannot be run."""
    found = {}
    for match, trials in plan.items():
        states = [done[planned.key].state for _, planned in trials]
        if any(state not in (FINISHED, "refused", "failed") for state in states):
            continue
        tried = [
            Chosen(point, mode, run.validated(mode))
            for point, planned in trials
            if done[planned.key].state == FINISHED
            for run in [Outcome.read(done[planned.key].path)]
            for mode in run.modes
            if tournament.own_classes or mode not in AMONG_OWN
        ]
        known = [one for one in tried if not math.isnan(one.validated)]
        if known:
            found[match] = max(known, key=lambda one: one.validated)  # of equal ones the first: the defaults
    return found
