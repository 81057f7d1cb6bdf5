"""A table of numbers as text: csv:PATH. The first line names the columns.

One column is the label (numbers from 0 on, or names), all others are features and must be numbers; `drop`
leaves columns out. Test rows are those of a second file (`test_file`), or those marked in a column (`test`:
1, true, yes or test); without either a fixed stratified quarter becomes test.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from ...core.errors import DataError
from ...core.options import option
from ..base import Dataset, Source, sources
from .parquet import ids_of
from .stratify import stratified_test

MARKS = {"1": True, "true": True, "yes": True, "test": True, "0": False, "false": False, "no": False}
MARKS |= {"train": False, "": False}
Columns = dict[str, list[str]]


@sources.register("csv")
@dataclass(frozen=True)
class Csv(Source):
    """csv:PATH, a table of numbers with a label column."""

    positional: ClassVar[str] = "path"
    path: str = option("", "the file; its first line names the columns")
    label: str = option("label", "the label column")
    test_file: str = option("", "a second file of the same columns, whose rows are for testing")
    test: str = option("", "the column that marks test rows (1, true, yes or test)")
    owner: str = option("owner", "the column of natural owners, if there is one")
    drop: tuple[str, ...] = option((), "columns that are no features, joined by +")
    scale: bool = option(False, "scale features by mean and standard deviation of all training rows")

    def load(self) -> Dataset:
        if not self.path:
            raise DataError("csv: no path given; write csv:PATH")
        columns = read_table(Path(self.path), self.label)
        first = len(columns[self.label])
        if self.test_file:
            columns = _joined(columns, read_table(Path(self.test_file), self.label), self.test_file)
        y, classes = ids_of(_whole_numbers(columns[self.label]), None, self.path)
        test = self._test(columns, first, y)
        x = self._features(columns)
        if self.scale:
            mean, std = x[~test].mean(axis=0), x[~test].std(axis=0)
            x = (x - mean) / np.where(std > 0, std, 1)
        owner = np.array(columns[self.owner]) if self.owner in columns else None
        names = tuple(str(name) for name in classes)
        return Dataset(Path(self.path).stem, x.astype(np.float32), y, test, names, owner=owner)

    def _test(self, columns: Columns, first: int, y: np.ndarray) -> np.ndarray:
        if self.test_file:
            return np.arange(len(y)) >= first
        if not self.test:
            return stratified_test(y, 0.25, Path(self.path).stem)
        if self.test not in columns:
            raise DataError(f"{self.path}: no column {self.test!r}; it has {', '.join(columns)}")
        marks = [mark.strip().lower() for mark in columns[self.test]]
        odd = next((row for row, mark in enumerate(marks) if mark not in MARKS), None)
        if odd is not None:
            raise DataError(
                f"{self.path}: row {odd} of {self.test!r} is {marks[odd]!r}; "
                "expected 1, true, yes or test, or 0, false, no or train"
            )
        return np.array([MARKS[mark] for mark in marks])

    def _features(self, columns: Columns) -> np.ndarray:
        if missing := [name for name in self.drop if name not in columns]:
            raise DataError(f"{self.path}: drop: no column {missing[0]!r}; it has {', '.join(columns)}")
        others = {self.label, self.test, self.owner, *self.drop}
        names = [name for name in columns if name not in others]
        if not names:
            raise DataError(f"{self.path}: no columns are left for features besides {self.label!r}")
        return np.stack([_numbers(columns[name], f"{self.path}: column {name!r}") for name in names], axis=1)


def read_table(path: Path, label: str) -> Columns:
    """The columns of a file as text, by their names."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as a table of text ({error})") from error
    if len(rows) < 2:
        raise DataError(f"{path}: no rows; expected a line of column names and a line for each sample")
    names = [name.strip() for name in rows[0]]
    if label not in names:
        raise DataError(
            f"{path}: no column {label!r} for labels; it has {', '.join(names[:20])}; name it with label=…"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path}: two columns are named {twice!r}; give each its own name")
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            raise DataError(f"{path}: line {line} has {len(row)} values, the first line names {len(names)}")
    return dict(zip(names, map(list, zip(*rows[1:]))))


def _joined(train: Columns, test: Columns, where: str) -> Columns:
    if odd := sorted(train.keys() ^ test.keys()):
        raise DataError(f"{where}: column {odd[0]!r} is in one of the two files only")
    return {name: train[name] + test[name] for name in train}


def _whole_numbers(labels: list[str]) -> list[int] | list[str]:
    """Labels as whole numbers, if all are such; else as they are written."""
    try:
        return [int(label) for label in labels]
    except ValueError:
        return [label.strip() for label in labels]


def _numbers(values: list[str], where: str) -> np.ndarray:
    try:
        return np.array(values, dtype=np.float64)
    except ValueError:
        row = next(row for row, value in enumerate(values) if not _is_number(value))
        raise DataError(
            f"{where}, row {row}: {values[row]!r} is no number; features must be numbers: leave the column "
            "out with drop=…, or code it as numbers"
        ) from None


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
