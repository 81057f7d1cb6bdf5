"""Tables of text as inputs: numbers, categories, gaps. All that is computed comes from training rows."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import DataError
from .inputs import InputCol, InputRule, filled, ready, standardised

GAPS = {"", "na", "n/a", "nan", "null", "none", "?"}  # cells that hold no value, in any case
MOST_VALUES = 100  # of one category; more is rather an identifier
ALL = "all"
log = logging.getLogger("protofed")


class Wanted(NamedTuple):
    """How columns are to be read."""

    missing: str = "refuse"
    onehot: tuple[str, ...] = ()
    standardise: bool = False


def fit_columns(
    table: Mapping[str, Sequence[str]],
    train: np.ndarray,
    wanted: Wanted,
    where: str,
    known: Mapping[str, Sequence[str]] | None = None,
) -> tuple[InputCol, ...]:
    """The rule of each column, from training rows. `known`: categories' values that other tables have."""
    if odd := [name for name in wanted.onehot if name not in table and name != ALL]:
        raise DataError(f"{where}: onehot: no feature {odd[0]!r}; there are {', '.join(table)}")
    made = []
    for name, cells in table.items():
        if is_category(name, cells, wanted, where):
            values = sorted({*_values(cells, train), *(known or {}).get(name, ())})
            made.append(_category(name, values, cells, wanted, where))
        else:
            made.append(_number(name, numbers(cells, f"{where}: column {name!r}"), train, wanted, where))
    return tuple(made)


def number_columns(
    x: np.ndarray, names: Sequence[str], train: np.ndarray, standardise: bool
) -> tuple[InputCol, ...]:
    """The rules of columns that all are numbers without gaps."""
    wanted = Wanted(standardise=standardise)
    return tuple(
        _number(name, x[:, i].astype(np.float64), train, wanted, "x") for i, name in enumerate(names)
    )


def encode(table: Mapping[str, Sequence[str]], columns: Sequence[InputCol], where: str) -> np.ndarray:
    """[N, inputs] float32. A value that a category did not have in training is 0 in all its inputs."""
    parts = []
    for column in columns:
        cells = table[column.name]
        if column.values:
            parts.append(_one_hot(cells, column, where))
        else:
            found = filled(numbers(cells, f"{where}: column {column.name!r}"), column, f"{where}: ")
            parts.append(standardised(found, column)[:, None])
    return np.concatenate(parts, axis=1).astype(np.float32)


def encode_named(table: Any, rule: InputRule) -> np.ndarray:
    """Inputs of columns by name (a dict or a DataFrame), numbers or text."""
    if rule.column and rule.column in table:
        return ready(["" if cell is None else str(cell) for cell in table[rule.column]], rule)
    if not rule.columns:
        raise DataError(
            "the model was not trained on a table of these columns; give "
            + (f"a column {rule.column!r}" if rule.column else "an array")
        )
    have = [str(name) for name in (table.columns if hasattr(table, "columns") else table)]
    if lost := [column.name for column in rule.columns if column.name not in have]:
        raise DataError(
            f"no column {lost[0]!r}; the model was trained on it, the table has {', '.join(have)}"
        )
    cells = {c.name: ["" if v is None else str(v) for v in table[c.name]] for c in rule.columns}
    if len({len(values) for values in cells.values()}) > 1:
        raise DataError("the columns have different numbers of rows")
    return encode(cells, rule.columns, "the table")


def is_gap(cell: str) -> bool:
    """Whether a cell holds no value."""
    return cell.strip().casefold() in GAPS


def is_category(name: str, cells: Sequence[str], wanted: Wanted, where: str) -> bool:
    """Whether a column is to be coded by its values: named, or no numbers where `onehot=all`."""
    if name in wanted.onehot:
        return True
    if ALL not in wanted.onehot:
        return False
    held = [cell for cell in cells if not is_gap(cell)]
    odd = [cell for cell in held if not is_number(cell)]
    if odd and len(odd) < len(held) / 2:
        raise DataError(
            f"{where}: column {name!r} mixes numbers and text ({odd[0]!r}); correct it, leave it out "
            f"(drop={name}), or name it as a category (onehot={name})"
        )
    return bool(odd)


def numbers(cells: Sequence[str], where: str) -> np.ndarray:
    """Cells as float64, gaps as NaN; DataError at the first that is no finite number."""
    try:
        found = np.array(["nan" if is_gap(cell) else cell for cell in cells], dtype=np.float64)
    except ValueError:
        row = next(row for row, cell in enumerate(cells) if not is_gap(cell) and not is_number(cell))
        raise DataError(
            f"{where}, row {row}: {cells[row]!r} is no number; features must be numbers: leave the column "
            "out with drop=…, code it as categories with onehot=…, or correct the value"
        ) from None
    if np.isinf(found).any():
        raise DataError(f"{where}, row {int(np.isinf(found).argmax())}: the value is infinite; correct it")
    return found


def is_number(cell: str) -> bool:
    """Whether a cell can be read as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(name: str, found: np.ndarray, train: np.ndarray, wanted: Wanted, where: str) -> InputCol:
    seen = found[train & ~np.isnan(found)]
    if not len(seen):
        raise DataError(
            f"{where}: column {name!r} has no value in any training row; leave it out (drop={name})"
        )
    fills = {"mean": seen.mean(), "median": np.median(seen), "zero": 0.0}
    column = InputCol(name, fill=float(fills[wanted.missing]) if wanted.missing in fills else None)
    if not wanted.standardise:
        return column
    whole = filled(found, column, f"{where}: ")[train]
    return InputCol(name, (), column.fill, float(whole.mean()), float(whole.std()) or 1.0)


def _category(name: str, values: list[str], cells: Sequence[str], wanted: Wanted, where: str) -> InputCol:
    if len(values) > MOST_VALUES:
        raise DataError(
            f"{where}: column {name!r} has {len(values)} different values, too many for a category (at most "
            f"{MOST_VALUES}); leave it out with drop={name}"
        )
    if not values:
        raise DataError(
            f"{where}: column {name!r} has no value in any training row; leave it out (drop={name})"
        )
    gap = next((row for row, cell in enumerate(cells) if is_gap(cell)), None)
    if gap is not None and wanted.missing == "refuse":
        raise DataError(
            f"{where}: column {name!r}, row {gap}: the value is missing; fill it in, or set missing=zero, "
            "mean or median (a missing category is 0 in all its inputs)"
        )
    return InputCol(name, tuple(values), fill=None if wanted.missing == "refuse" else 0.0)


def _values(cells: Sequence[str], train: np.ndarray) -> set[str]:
    return {cell.strip() for cell, trains in zip(cells, train) if trains and not is_gap(cell)}


def _one_hot(cells: Sequence[str], column: InputCol, where: str) -> np.ndarray:
    place = {value: number for number, value in enumerate(column.values)}
    found = np.array([-1 if is_gap(cell) else place.get(cell.strip(), -2) for cell in cells])
    if (found == -1).any() and column.fill is None:
        row = int((found == -1).argmax())
        raise DataError(f"{where}: column {column.name!r}, row {row}: the value is missing; fill it in")
    if new := int((found == -2).sum()):
        log.warning(
            "%s: column %r has %d values that no training row has (%r, …): they are 0 in all its inputs",
            where, column.name, new, cells[int((found == -2).argmax())],
        )  # fmt: skip
    made = np.zeros((len(cells), len(column.values)))
    rows = np.flatnonzero(found >= 0)
    made[rows, found[rows]] = 1
    return made
