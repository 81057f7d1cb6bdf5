"""What a recipe says must be possible: looked at before anything is run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..config import resolve
from ..core.algorithm import methods
from ..core.errors import ConfigError, unknown
from ..runs.modes import check_mode

if TYPE_CHECKING:
    from .recipe import Recipe

OF_CELLS = ("mean", "std", "also")  # the tables of [published] with a number for each column
OF_ROWS = ("rounds", "params_k")  # and those with one number, or such a list, for each row


def check_recipe(recipe: Recipe, where: str) -> None:
    """Refuse a recipe that contradicts itself or names what is not there; the error begins with `where`."""
    if not recipe.rows or not recipe.columns:
        raise ConfigError(f"{where}: needs at least one row and one column")
    parts = {"rows": [row.name for row in recipe.rows], "columns": [c.name for c in recipe.columns]}
    for part, names in parts.items():
        if len(set(names)) < len(names):
            raise ConfigError(f"{where}: two {part} have the same name")
    try:
        resolve(recipe.settings)  # also what every row replaces
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    _check_rows(recipe, where)
    _check_measures(recipe, where)
    _check_published(recipe, where)


def _check_rows(recipe: Recipe, where: str) -> None:
    """Names of rows, their methods and prediction modes."""
    rows = [row.name for row in recipe.rows]
    named = [("order", name) for order in recipe.orders for name in (order.above, order.below)]
    about = recipe.about
    named += [(kind, getattr(about, kind)) for kind in ("reference", "baseline") if getattr(about, kind)]
    for kind, name in named:
        if name not in rows:
            raise ConfigError(f"{where}: {kind}: {unknown('row', name, rows)}")
    for row in recipe.rows:
        if about.costs:
            continue
        if row.method not in methods:
            raise ConfigError(f"{where}: row {row.name}: {unknown('method', row.method, methods)}")
        if row.mode:
            check_mode(row.mode, methods[row.method]().modes, f"{where}: row {row.name}")


def _check_measures(recipe: Recipe, where: str) -> None:
    about = recipe.about
    for column in recipe.columns:
        measure = column.measure or about.measure
        missing = [kind for kind in ("reference", "baseline") if not getattr(about, kind)]
        if measure == "rounds_to" and column.target is None:
            raise ConfigError(
                f"{where}: column {column.name}: rounds_to needs target, an accuracy in percent"
            )
        if measure in ("mmd", "ffd") and missing:
            raise ConfigError(f"{where}: column {column.name}: {measure} needs about.{missing[0]}, a row")
    for place, over in [("about", about.over), *((f"column {c.name}", c.over) for c in recipe.columns)]:
        for name, values in over.items():
            if not isinstance(values, list) or not values:
                raise ConfigError(
                    f"{where}: {place}: over: {name}: expected a list of values, got {values!r}"
                )
    if about.costs:
        from .costs import COSTS

        if about.costs not in COSTS:
            raise ConfigError(f"{where}: about.costs: {unknown('computation', about.costs, COSTS)}")


def _check_published(recipe: Recipe, where: str) -> None:
    rows = [row.name for row in recipe.rows]
    for kind, table in _table(recipe.published, f"{where}: published").items():
        if kind not in (*OF_CELLS, *OF_ROWS):
            raise ConfigError(f"{where}: published: {unknown('table', kind, (*OF_CELLS, *OF_ROWS))}")
        for row, values in _table(table, f"{where}: published.{kind}").items():
            if row not in rows:
                raise ConfigError(f"{where}: published.{kind}: {unknown('row', row, rows)}")
            if kind in OF_ROWS and _is_number(values):
                continue
            if not (isinstance(values, list) and all(_is_number(value) for value in values)):
                raise ConfigError(
                    f"{where}: published.{kind}: {row}: expected a list of numbers (nan where nothing is "
                    f"printed), got {values!r}"
                )
            if len(values) != len(recipe.columns):
                raise ConfigError(
                    f"{where}: published.{kind}: {row} has {len(values)} numbers for "
                    f"{len(recipe.columns)} columns"
                )


def _table(given: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: expected a table, got {given!r}")
    return given


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
