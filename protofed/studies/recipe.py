"""Recipes: one published table or figure as settings, rows, columns and printed numbers.

A recipe is a TOML file. Its top holds the settings that all runs share, so that `protofed run` takes it
too. The rest stands in two tables that `protofed run` passes over:

    [about]      what it is, the data and the time it needs, and how numbers are taken
    [[about.rows]]       a method: name as printed, method, preset, options, settings, mode
    [[about.columns]]    a setting, options of methods, a client, a round, or another measure
    [about.over]         a setting over whose values a cell is averaged (ProtoMargin's δ)
    [[about.orders]]     what should hold between rows
    [published]  the printed numbers, as numbers: `mean`, `std`, `also`, one list per row in the order
                 of the columns; nan where nothing is printed. `rounds`, of each row one number, or such
                 a list

Layers, from weakest: defaults, the row's preset, the recipe, the column, `over`, the row, the command line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from ..config import Config, read_recipe
from ..core.errors import ConfigError, unknown
from ..core.options import build, option
from .recipe_checks import check_recipe

MEASURES = {
    "last": "accuracy in the last round",
    "best": "accuracy in the best round",
    "smoothed": "accuracy, mean over the last tenth of the rounds",
    "train_loss": "loss of the participants while they train, mean over the last tenth of the rounds",
    "test_loss": "the same of the loss on test samples",
    "last_loss": "train_loss of the last round",
    "start": "accuracy before the first round, by classifier; all runs of the recipe are then tested there",
    "rounds_to": "the first tested round with at least the accuracy `target`",
    "proto_distance": "distance of test samples to global prototypes, mse, mean over clients (FedProto)",
    "amm": "aggregate mean margin (ProtoMargin)",
    "gradients": "dissimilarity of the clients' gradients (ProtoMargin)",
    "margin_ratio": "margin of a global prototype by the largest one at a client, mean over classes (FedTGP)",
    "mmd": "maximum mean discrepancy from the features of the row `reference`",
    "ffd": "by how many percent mmd is below that of the row `baseline`",
    "aggregate_loss": "loss of the tested models on all training samples, without a method's own terms",
    "train_error": "share of training samples, in percent, that the main prediction gets wrong",
}


@dataclass(frozen=True)
class Row:
    """A row of the printed table."""

    name: str = option("", "as printed")
    method: str = option("", "the method, or empty in a table of costs")
    preset: str = option(Config.preset, "its preset; default: the one at the top of the recipe")
    options: dict[str, Any] = option({}, "its options")
    settings: dict[str, Any] = option({}, "settings of this row")
    mode: str = option("", "prediction mode; default: the method's main one")
    released_spread: bool = option(False, "± over clients as FedProto's released evaluation prints it")
    stand_in: str = option("", "why its numbers do not compare")


@dataclass(frozen=True)
class Column:
    """A column of the printed table."""

    name: str = option("", "as printed")
    settings: dict[str, Any] = option({}, "settings of this column")
    options: dict[str, Any] = option({}, "options of methods, by the method's name")
    over: dict[str, Any] = option({}, "instead of the recipe's: averaged over these values")
    run: bool = option(True, "false: printed only, cannot be run")
    needs: str = option("", "file in PROTOFED_DATA without which it is printed only")
    client: int | None = option(None, "accuracy of this client instead of the mean", low=0)
    measure: str | None = option(None, "instead of the recipe's", choices=tuple(MEASURES))
    target: float | None = option(None, "accuracy that `rounds_to` waits for", low=0)
    tolerance: float | None = option(None, "instead of the recipe's", low=0)
    x: float | None = option(None, "position in the figure")
    panel: str = option("", "panel of the figure; default: one for each measure")
    round: int | None = option(None, "as of this round instead of the last", low=1)
    rounds: tuple[int, ...] = option((), "stands for one column for each of these rounds")
    stand_in: str = option("", "why its numbers do not compare")


@dataclass(frozen=True)
class Order:
    """A claim: `above` does better than `below`; or its spread is the smaller one."""

    above: str = option("", "row")
    below: str = option("", "row, or a list of rows; a claim in columns whose printed numbers show the order")
    by: str = option("value", "what is compared", choices=("value", "smaller_spread"))


@dataclass(frozen=True)
class About:
    """The table [about] of a recipe, without its rows and columns."""

    title: str = option("", "what the table shows")
    paper: str = option("", "citation")
    data: tuple[str, ...] = option((), "files in PROTOFED_DATA")
    hours: float = option(0.0, "time of all runs on two cores, a rough estimate", low=0)
    seeds: int = option(3, "seeds by default", low=1)
    tolerance: float = option(0.0, "largest difference that counts as agreement", low=0)
    measure: str = option("last", "round that is reported, or what is measured", choices=tuple(MEASURES))
    accuracy: str = option("mean", "over clients, or over all test samples", choices=("mean", "pooled"))
    spread: str = option("", "what the printed ± is over", choices=("", "clients", "seeds", "over"))
    better: str = option("higher", "which way is better", choices=("higher", "lower", "neither"))
    digits: int = option(2, "decimals that are printed", low=0)
    over: dict[str, Any] = option({}, "setting and its values, averaged in a cell")
    correlate: str = option(
        "", "accuracy that is correlated with the measure", choices=("", *tuple(MEASURES)[:3])
    )
    correlation: tuple[float, ...] = option((), "as printed: Pearson's r, and p")
    reference: str = option("", "row whose features MMD and FFD take as the aim")
    baseline: str = option("", "row whose MMD FFD compares with")
    costs: str = option("", "name of the computation, for tables that need no training")
    stand_in: str = option("", "why the numbers do not compare")
    x: str = option("", "name of the horizontal axis, for figures")
    notes: tuple[str, ...] = option((), "what a reader should know")


@dataclass(frozen=True)
class Recipe:
    """A recipe as read."""

    id: str
    about: About
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    orders: tuple[Order, ...]
    settings: dict[str, Any]
    published: dict[str, Any] = field(default_factory=dict)

    def printed(self, kind: str, row: str, column: str) -> float:
        """A printed number ("mean", "std", "also"), or NaN."""
        values = self.published.get(kind, {}).get(row)
        if values is None:
            return math.nan
        return float(values[[c.name for c in self.columns].index(column)])

    def printed_rounds(self, row: str, column: str) -> float:
        """As printed: one number for all columns of a row, or one for each."""
        rounds = self.published.get("rounds", {}).get(row)
        return self.printed("rounds", row, column) if isinstance(rounds, list) else float(rounds)


def recipe_folder() -> Path:
    """Where the recipes lie that come with the package."""
    return Path(str(resources.files("protofed") / "recipes"))


def recipe_ids() -> list[str]:
    """All recipes that come with the package."""
    found = (path.stem for path in recipe_folder().glob("*.toml"))
    return sorted(found, key=lambda name: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", name)])


def load_recipe(name: str) -> Recipe:
    """A recipe by its id ("fp-t2"), or from a file of your own."""
    if name.endswith(".toml"):
        return read(Path(name))
    if name.lower() not in recipe_ids():
        raise ConfigError(unknown("recipe", name, recipe_ids()) + " (or give the path of a .toml file)")
    return read(recipe_folder() / f"{name.lower()}.toml")


def read(path: Path) -> Recipe:
    """Read a file and check the kinds of its parts; `recipe_checks` looks at what they say."""
    settings = read_recipe(path)
    about = settings.pop("about", None)
    published = settings.pop("published", {})
    if not isinstance(about, Mapping):
        raise ConfigError(f"recipe {path}: the table [about] is missing")
    parts = {name: about.get(name, []) for name in ("rows", "columns", "orders")}
    for name, tables in parts.items():
        if not (isinstance(tables, list) and all(isinstance(table, Mapping) for table in tables)):
            raise ConfigError(f"recipe {path}: about.{name}: expected tables, written [[about.{name}]]")
    rest = {key: value for key, value in about.items() if key not in parts}
    where = f"recipe {path.stem}"
    preset = {key: value for key, value in settings.items() if key == "preset"}
    columns = [one for column in parts["columns"] for one in _columns(column, f"{where}: column")]
    if "start" in (rest.get("measure"), *(column.measure for column in columns)):
        settings.setdefault("eval_start", True)
    recipe = Recipe(
        path.stem,
        build(About, rest, f"{where}: about"),
        tuple(build(Row, {**preset, **row}, f"{where}: row") for row in parts["rows"]),
        tuple(columns),
        tuple(one for order in parts["orders"] for one in _orders(order, f"{where}: order")),
        {key: value for key, value in settings.items() if key not in ("method", "preset", "options")},
        published,
    )
    check_recipe(recipe, where)
    return recipe


def _orders(written: Mapping[str, Any], where: str) -> list[Order]:
    """The order, or one for each row of the list below."""
    below = written.get("below", "")
    rows = below if isinstance(below, list) else [below]
    if not rows:
        raise ConfigError(f"{where}: below: the list has no row")
    return [build(Order, {**written, "below": row}, where) for row in rows]


def _columns(written: Mapping[str, Any], where: str) -> list[Column]:
    """The column, or one for each of its rounds, which are then their positions in the figure."""
    column = build(Column, written, where)
    if not column.rounds:
        return [column]
    return [
        replace(column, name=f"{column.name}, round {r}", round=r, x=float(r), rounds=())
        for r in column.rounds
    ]
