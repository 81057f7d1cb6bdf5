"""A recipe as runs: every cell of the printed table is one run per seed, or several (`about.over`)."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..config import SECTIONS, Config, resolve
from ..core.errors import ConfigError, unknown
from ..data import check_source
from .compare import seed_range
from .model_measures import COMPARING, MODEL_MEASURES, Look
from .plan import SYSTEM, Planned, check_no_options
from .recipe import Column, Recipe, Row

_NONE = object()


@dataclass(frozen=True)
class Selection:
    """What of a recipe is carried out; settings win over the recipe's."""

    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    seeds: int | None = None
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class CellPlan:
    """The runs of one cell: for every seed, one per value of `about.over`."""

    row: Row
    column: Column
    by_seed: tuple[tuple[Planned, ...], ...]
    why: tuple[str, ...]  # why the numbers will not compare

    @property
    def runs(self) -> list[Planned]:
        """All runs, those that are compared with first."""
        own = [planned for runs in self.by_seed for planned in runs]
        beside = [other for planned in own for other in (planned.reference, planned.baseline) if other]
        return [*beside, *own]

    def known(self, keys: Container[str]) -> list[Planned]:
        """Its own runs among these."""
        return [planned for runs in self.by_seed for planned in runs if planned.key in keys]


def plan_reproduction(recipe: Recipe, choice: Selection) -> list[CellPlan]:
    """The runs of all chosen cells. Cells may share runs."""
    settings = dict(choice.settings or {})
    given = [name for name in {**settings, **settings.get("options", {})} if name != "options"]
    if recipe.about.costs and given:
        raise ConfigError(f"recipe {recipe.id}: is computed as printed; {given[0]} cannot be changed")
    seeds = seeds_of(recipe, choice)
    rows = pick(recipe.rows, choice.rows, "method")
    if len({row.method for row in rows}) > 1:
        check_no_options(settings, "a recipe of your own, or choose rows of one method with --methods")
    columns = pick(recipe.columns, choice.columns, "column")
    return [_cell_plan(recipe, row, column, settings, seeds) for row in rows for column in columns]


def seeds_of(recipe: Recipe, choice: Selection) -> range:
    """The seeds of every cell's runs."""
    first = {"seed": recipe.settings.get("seed", 0), **(choice.settings or {})}
    return seed_range(first, recipe.about.seeds if choice.seeds is None else choice.seeds)


def pick(parts: Sequence[Any], wanted: Sequence[str], kind: str) -> list[Any]:
    """Parts by name, in any case; a row also by its method, a column also by a piece of its name."""
    if not wanted:
        return list(parts)
    chosen: list[Any] = []
    for text in wanted:
        plain = text.lower()
        exact = [part for part in parts if part.name.lower() == plain]
        loose = [
            part
            for part in parts
            if (part.method == plain if isinstance(part, Row) else plain in part.name.lower())
        ]
        if not (exact or loose):
            raise ConfigError(unknown(kind, text, [part.name for part in parts]))
        chosen += [part for part in exact or loose if part not in chosen]
    return [part for part in parts if part in chosen]


def _cell_plan(
    recipe: Recipe, row: Row, column: Column, settings: Mapping[str, Any], seeds: range
) -> CellPlan:
    why = [text for text in (recipe.about.stand_in, column.stand_in, row.stand_in) if text]
    if column.needs and not in_data_folder(column.needs):
        return CellPlan(row, column, (), (*why, f"{column.needs} is not in PROTOFED_DATA"))
    if not column.run or recipe.about.costs:
        return CellPlan(row, column, (), tuple(why))
    points = over_points(recipe, column)
    configs = [cell_config(recipe, row, column, point, settings) for point in points]
    by_seed = tuple(
        tuple(_planned(recipe, row, column, point, settings, seed) for point in points) for seed in seeds
    )
    if settings:
        measure = column.measure or recipe.about.measure
        published = [cell_config(recipe, row, column, point, {}) for point in points]
        why += dict.fromkeys(text for pair in zip(configs, published) for text in changes(*pair, measure))
    return CellPlan(row, column, by_seed, tuple(why))


def in_data_folder(name: str) -> bool:
    """Whether the folder that PROTOFED_DATA names has this file."""
    folder = os.environ.get("PROTOFED_DATA", "")
    return bool(folder) and (Path(folder) / name).exists()


def _planned(
    recipe: Recipe,
    row: Row,
    column: Column,
    point: Mapping[str, Any],
    settings: Mapping[str, Any],
    seed: int,
) -> Planned:
    def run_of(one: Row) -> Planned:
        config = replace(cell_config(recipe, one, column, point, settings), seed=seed)
        return Planned(f"{one.name} {column.name}", config, looks=looks)

    measure, about = column.measure or recipe.about.measure, recipe.about
    taken = "mmd" if measure == "ffd" else measure
    at_round = column.round is not None and measure in MODEL_MEASURES
    looks = (Look(column.round, taken),) if at_round and column.round else ()
    if measure not in COMPARING:
        return run_of(row)
    named = {one.name: one for one in recipe.rows}
    reference = replace(run_of(named[about.reference]), looks=())
    compared = [replace(run_of(one), reference=reference) for one in (row, named[about.baseline])]
    return replace(compared[0], baseline=compared[1] if measure == "ffd" else None)


def over_points(recipe: Recipe, column: Column) -> list[dict[str, Any]]:
    """The settings over which a cell is averaged; one empty one if there are none."""
    over = column.over or recipe.about.over
    return [{name: value} for name, values in over.items() for value in values] or [{}]


def cell_config(
    recipe: Recipe, row: Row, column: Column, point: Mapping[str, Any], settings: Mapping[str, Any]
) -> Config:
    """The layers of one run, without its seed; the command line is the strongest."""
    chosen = {"method": row.method, "preset": row.preset, "options": column.options.get(row.method, {})}
    own = {**row.settings, "options": row.options}
    layers = [chosen, recipe.settings, column.settings, dict(point), own, dict(settings)]
    config = _resolve(json.dumps(layers, default=str))
    if config.public is None or config.make_method().needs.public:
        return config
    check_source(config.public)
    return replace(config, public=None, public_samples=Config.public_samples)  # given for other rows


@lru_cache(maxsize=1024)
def _resolve(layers: str) -> Config:
    """The columns of a figure share their configurations, and resolving one takes milliseconds."""
    return resolve(*json.loads(layers))


def changes(config: Config, published: Config, measure: str) -> list[str]:
    """Settings that differ from the recipe's in a way that matters, as reasons."""
    ours, theirs = _flat(config), _flat(published)
    known = {"rounds", "seed"} | (set() if measure == "best" else {"eval_every"})
    options, printed = ours.pop("options"), theirs.pop("options")
    found = [f"{name} changed" for name in ours if name not in known and ours[name] != theirs[name]]
    found += [f"{name} changed" for name in options if options[name] != printed.get(name, _NONE)]
    if ours["rounds"] != theirs["rounds"]:
        word = "of" if ours["rounds"] < theirs["rounds"] else "instead of"
        found.insert(0, f"{ours['rounds']} {word} {theirs['rounds']} rounds")
    return found


def _flat(config: Config) -> dict[str, Any]:
    """Settings by name, without those that change no number; all options of the method, as numbers.

    So a value is the same in any spelling, and a preset is what it stands for.
    """
    flat: dict[str, Any] = {"options": dataclasses.asdict(config.make_method())}
    for name, value in config.to_dict().items():
        if name in ("options", "preset"):
            continue
        if name == "system":
            flat |= {key: value[key] for key in SYSTEM}
        elif name in SECTIONS:
            flat |= value
        else:
            flat[name] = value
    return flat
