"""The one place where datasets and splits are checked, whatever made them."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np

from ..core.errors import DataError
from .base import VOID, Dataset, Rows, Split

LARGE = 30.0  # a float input that far from 0, or with such a spread, was hardly scaled
LOOKED_AT = 2000  # rows whose inputs are looked at
log = logging.getLogger("protofed")
_said: set[str] = set()


def check_dataset(dataset: Dataset) -> Dataset:
    """Lengths agree, labels are known classes, floats are finite; else DataError. Odd inputs: a warning."""
    name, rows = dataset.name, len(dataset.x)
    if rows == 0:
        raise DataError(f"{name}: no samples")
    columns = {"y": dataset.y, "test": dataset.test, "domain": dataset.domain, "owner": dataset.owner}
    for column, values in columns.items():
        if values is not None and len(values) != rows:
            raise DataError(f"{name}: {column} has {len(values)} rows, x has {rows}; they must be equal")
    check_shape(dataset)
    _check_names(dataset)
    _check_labels(dataset)
    _check_finite(dataset)
    _look_at_inputs(dataset)
    return _with_numbered_owners(dataset)


def _with_numbered_owners(dataset: Dataset) -> Dataset:
    """Owners that are names become numbers, in alphabetical order, and keep their names."""
    if dataset.owner is None or dataset.owner.dtype.kind not in "USO":
        return dataset
    names, owner = np.unique(dataset.owner.astype(str), return_inverse=True)
    return replace(dataset, owner=owner.astype(np.int64), owners=tuple(names.tolist()))


def _check_names(dataset: Dataset) -> None:
    first: dict[str, int] = {}
    for number, name in enumerate(dataset.classes):
        if (other := first.setdefault(name, number)) != number:
            raise DataError(
                f"{dataset.name}: classes {other} and {number} are both called {name!r}; give each a name of "
                "its own, or give their rows one label"
            )


def _check_labels(dataset: Dataset) -> None:
    if dataset.y.dtype.kind not in "iu":
        raise DataError(f"{dataset.name}: labels must be integers, got {dataset.y.dtype}")
    least = VOID if dataset.dense else 0
    low, high = int(dataset.y.min()), int(dataset.y.max())
    if low < least or high >= dataset.num_classes:
        bad = low if low < least else high
        where = _first_row(dataset.y, bad)
        raise DataError(
            f"{dataset.name}: row {where} has label {bad}, expected 0 to {dataset.num_classes - 1}; "
            "correct the labels or name all classes"
        )
    if dataset.dense and dataset.y.shape[1:] != dataset.shape[1:]:
        raise DataError(
            f"{dataset.name}: masks are {dataset.y.shape[1:]}, images {dataset.shape[1:]}; they must be equal"
        )


def check_several_classes(dataset: Dataset) -> None:
    """A federation needs something to tell apart; else DataError. (A single site may have one class.)"""
    if not dataset.dense and (dataset.y == dataset.y[0]).all():
        raise DataError(
            f"{dataset.name}: all samples are of one class, {dataset.classes[int(dataset.y[0])]!r}; there is "
            "nothing to tell apart: are these the right labels?"
        )


def check_shape(dataset: Dataset) -> None:
    """Inputs have an axis besides that of the rows; else DataError."""
    if dataset.x.ndim == 1:
        raise DataError(
            f"{dataset.name}: x is a single column of {len(dataset.x)} numbers; give a table [N, features] "
            "(x[:, None] for one feature) or images"
        )


def _look_at_inputs(dataset: Dataset) -> None:
    """One line where inputs carry nothing, or are so large that training with common rates fails."""
    if dataset.x.dtype.kind != "f" or dataset.mean is not None:
        return
    x = np.asarray(dataset.x[:LOOKED_AT], dtype=np.float64)
    mean, std = (x.mean(axis=0), x.std(axis=0)) if x.ndim == 2 else (x.mean()[None], x.std()[None])
    constant = np.flatnonzero(std == 0)
    if len(constant) and len(x) > 1:
        some = _feature(dataset, int(constant[0])) + (
            f" and {len(constant) - 1} more" if len(constant) > 1 else ""
        )
        _warn(f"{dataset.name}: {some if x.ndim == 2 else 'x'}: all values are equal, nothing can be learnt")
    size = np.maximum(np.abs(mean), std)
    if size.max() > LARGE:
        worst = int(size.argmax())
        what = f"{_feature(dataset, worst)} has" if x.ndim == 2 else "x has"
        _warn(
            f"{dataset.name}: {what} mean {mean[worst]:.4g} and standard deviation {std[worst]:.4g}: scale "
            "inputs to about 0 and 1 (csv: standardise=true; images: store them as uint8), or training "
            "may fail"
        )


def _feature(dataset: Dataset, number: int) -> str:
    """A feature by the name of its column, where it has one."""
    names = [column.name for column in dataset.rule().columns for _ in range(column.width)]
    return f"feature {number}" + (f" ({names[number]})" if names else "")


def _warn(text: str) -> None:
    if text not in _said:  # a study opens the same data many times
        _said.add(text)
        log.warning(text)


def _first_row(y: np.ndarray, value: int) -> int:
    return int(np.argwhere(y == value)[0, 0])


def _check_finite(dataset: Dataset) -> None:
    x = dataset.x
    if x.dtype.kind != "f":
        return
    with np.errstate(all="ignore"):
        suspicious = not np.isfinite(x.sum())  # one pass without a copy; may also be mere overflow
    if suspicious and not np.isfinite(x).all():
        row = int(np.argwhere(~np.isfinite(x))[0, 0])
        raise DataError(f"{dataset.name}: row {row} of x holds NaN or infinity; remove or repair it")


def check_split(split: Split, dataset: Dataset, where: str) -> Split:
    """Every client trains on something, tests on nothing that it trains on, and all rows exist."""
    if len(split.train) != len(split.test):
        raise DataError(f"{where}: {len(split.train)} training parts but {len(split.test)} test parts")
    _check_range(split.train, dataset, where)
    _check_range(split.test, dataset, where)
    empty = np.flatnonzero(split.train.sizes == 0)
    if len(empty):
        raise DataError(
            f"{where}: client {empty[0]} has no training samples ({len(empty)} such clients of "
            f"{split.clients}); use fewer clients, more data or other options"
        )
    _check_disjoint(split, dataset, where)
    return split


def _check_range(rows: Rows, dataset: Dataset, where: str) -> None:
    values = rows.values
    if len(values) and (values.min() < 0 or values.max() >= len(dataset.x)):
        bad = values.min() if values.min() < 0 else values.max()
        raise DataError(f"{where}: row {bad} does not exist; {dataset.name} has {len(dataset.x)} rows")


def _check_disjoint(split: Split, dataset: Dataset, where: str) -> None:
    trained = np.zeros(len(dataset.x), dtype=bool)
    trained[split.train.values] = True
    if not trained[split.test.values].any():
        return  # nobody tests on what anybody trains on
    shared = np.intersect1d(_keys(split.train, len(dataset.x)), _keys(split.test, len(dataset.x)))
    if len(shared):
        client, row = divmod(int(shared[0]), len(dataset.x))
        raise DataError(f"{where}: client {client} both trains and tests on row {row}")


def _keys(rows: Rows, total: int) -> np.ndarray:
    """One number per (client, row)."""
    client = np.repeat(np.arange(len(rows), dtype=np.int64), rows.sizes)
    return np.asarray(client * total + rows.values)
