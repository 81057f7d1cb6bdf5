"""Cells of other pages that rest on the same runs, read the same way: tables of one paper share runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import RunError
from ..runs.files import read_json
from .cells import Cell
from .recipe import Column, Recipe, Row, load_recipe, recipe_ids

Reading = tuple[Any, ...]  # what of its runs a cell tells


def reading(recipe: Recipe, row: Row, column: Column) -> Reading:
    """Equal for two cells whose numbers are the same if their runs are."""
    about = recipe.about
    over = column.over or about.over
    how = (column.measure or about.measure, column.target, column.client, column.round, about.accuracy)
    spread = (about.spread, row.released_spread, about.correlate, about.reference, about.baseline)
    return (*how, row.mode, tuple(over), *spread)


def recipes_beside(outcome: Path) -> list[tuple[Recipe, Path]]:
    """The other outcomes of a folder whose recipes come with the package."""
    found = []
    for path in sorted(outcome.parent.glob("*.json")):
        try:
            there = read_json(path) if path.name != outcome.name else None
        except RunError:
            continue  # not ours
        name = there.get("recipe") if isinstance(there, Mapping) else None
        if name in recipe_ids():
            found.append((load_recipe(str(name)), path))
    return found


def by_reading(recipe: Recipe, cells: Mapping[tuple[str, str], Mapping[str, Cell]]) -> dict[Any, Cell]:
    """Cells by the runs that they rest on and how they are read, without their names."""
    rows = {row.name: row for row in recipe.rows}
    columns = {column.name: column for column in recipe.columns}
    return {
        (mark, reading(recipe, rows[row], columns[column])): replace(cell, row="", column="")
        for (row, column), parts in cells.items()
        if row in rows and column in columns
        for mark, cell in parts.items()
    }
