"""A table as text: csv:PATH. The first line names the columns.

One column is the label (numbers from 0 on, or names), all others are features: numbers, or categories where
`onehot` names them; `drop` leaves columns out. With `text` or `tokens` that column alone is the input. Test
rows are those of a second file (`test_file`), or those marked in a column (`test`: 1, true, yes or test);
without either a fixed stratified quarter becomes test.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from ...core.bounded_files import hold_rows
from ...core.errors import DataError
from ...core.options import option
from ..base import Dataset, Source, sources
from ..inputs import InputCol, InputRule
from ..table import Wanted, encode, fit_columns, is_gap
from ..texts import encode_texts, parse_tokens
from .parquet import ids_of
from .stratify import stratified_test

MARKS = {"1": True, "true": True, "yes": True, "test": True, "0": False, "false": False, "no": False}
MARKS |= {"train": False, "": False}
Columns = dict[str, list[str]]


class CsvTable(NamedTuple):
    """A file as it was read: features still as text."""

    features: Columns
    y: np.ndarray
    classes: tuple[str, ...]
    test: np.ndarray
    owner: np.ndarray | None


@sources.register("csv")
@dataclass(frozen=True)
class Csv(Source):
    """csv:PATH, a table with a label column."""

    positional: ClassVar[str] = "path"
    path: str = option("", "the file; its first line names the columns")
    label: str = option("label", "the label column")
    test_file: str = option("", "a second file of the same columns, whose rows are for testing")
    test: str = option("", "the column that marks test rows (1, true, yes or test)")
    owner: str = option("owner", "the column of natural owners, if there is one")
    drop: tuple[str, ...] = option((), "columns that are no features, joined by +")
    missing: str = option(
        "refuse",
        "empty cells (also NA, NaN, null, ?): refuse, or fill in mean or median of training rows, or zero",
        choices=("refuse", "mean", "median", "zero"),
    )
    onehot: tuple[str, ...] = option(
        (), "columns of categories, joined by +: one input for each value; all: every column of text"
    )
    standardise: bool = option(False, "scale features by mean and standard deviation of all training rows")
    scale: bool = option(False, "another name of standardise")
    text: str = option("", "a column of text, which becomes the inputs, by the encoder")
    encoder: str = option("minilm", "frozen encoder of text: minilm, or module:FILE.py:FUNCTION")
    tokens: str = option("", "a column of tokens, whole numbers with spaces between; they stay whole")
    length: int | None = option(None, "cut or fill up tokens to this length; default: the longest", low=1)

    def load(self) -> Dataset:
        return self.dataset(self.read())

    def read(self) -> CsvTable:
        """The file without any coding of its features."""
        if not self.path:
            raise DataError("csv: no path given; write csv:PATH")
        columns = read_table(Path(self.path), self.label)
        first = len(columns[self.label])
        if self.test_file:
            columns = _joined(columns, read_table(Path(self.test_file), self.label), self.test_file)
        _check_filled(columns[self.label], self.path, self.label, "label")
        y, classes = ids_of(_whole_numbers(columns[self.label]), None, self.path)
        test = self._test(columns, first, y)
        if test.all():
            raise DataError(f"{self.path}: all rows are for testing, none for training")
        return CsvTable(self._features(columns), y, tuple(map(str, classes)), test, self._owner(columns))

    def dataset(self, table: CsvTable, known: Mapping[str, Sequence[str]] | None = None) -> Dataset:
        """The table as inputs. `known`: further values of categories, which other tables have."""
        if self.text or self.tokens:
            return self._texts(table)
        rules = fit_columns(table.features, ~table.test, self.wanted, self.path, known)
        x = encode(table.features, rules, self.path)
        rule = InputRule(x.shape[1:], columns=rules, reading={"kind": self.name, "label": self.label})
        name = Path(self.path).stem
        parts = (name, x, table.y, table.test, table.classes)
        return Dataset(*parts, owner=table.owner, rules=(rule,), notes=tuple(self._notes(table, rules)))

    def _texts(self, table: CsvTable) -> Dataset:
        """One column of text or tokens as inputs; the others are not used, which is said."""
        if self.text and self.tokens:
            raise DataError(f"{self.path}: text and tokens are two kinds of inputs; give one of them")
        column, where = self.text or self.tokens, f"{self.path}: column {self.text or self.tokens!r}"
        if column not in table.features:
            raise DataError(f"{self.path}: no column {column!r}; it has {', '.join(table.features)}")
        reading = {"kind": self.name, "label": self.label, "column": column}
        if self.text:
            x = encode_texts(table.features[column], self.encoder, where)
            reading |= {"encoder": self.encoder}
            notes = [f"{where} is encoded by {self.encoder}, which stays as it is: {x.shape[1]} inputs"]
        else:
            x = parse_tokens(table.features[column], self.length, where)
            notes = [f"{where} holds tokens up to {x.max()}, at most {x.shape[1]} in a row"]
        if others := [name for name in table.features if name != column]:
            notes.append(f"{self.path}: columns that are not used: {', '.join(others)}")
        rule = InputRule(x.shape[1:], str(x.dtype), reading=reading)
        parts = (Path(self.path).stem, x, table.y, table.test, table.classes)
        return Dataset(*parts, owner=table.owner, rules=(rule,), notes=tuple(notes))

    @property
    def wanted(self) -> Wanted:
        """How features are to be read."""
        return Wanted(self.missing, self.onehot, self.standardise or self.scale)

    def _notes(self, table: CsvTable, rules: Sequence[InputCol]) -> Iterator[str]:
        gaps = sum(is_gap(cell) for cells in table.features.values() for cell in cells)
        if gaps:
            yield f"{self.path}: {gaps} missing values are filled (missing={self.missing})"
        coded = [f"{rule.name} ({rule.width})" for rule in rules if rule.values]
        if coded:
            yield f"{self.path}: categories with one input for each value: {', '.join(coded)}"
        if self.wanted.standardise:
            yield f"{self.path}: features are standardised by mean and deviation of the training rows"

    def _owner(self, columns: Columns) -> np.ndarray | None:
        if self.owner not in columns:
            if self.owner != Csv.owner:
                raise DataError(
                    f"{self.path}: no column {self.owner!r} for owners; it has {', '.join(columns)}"
                )
            return None
        _check_filled(columns[self.owner], self.path, self.owner, "owner")
        return np.array([name.strip() for name in columns[self.owner]])

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

    def _features(self, columns: Columns) -> Columns:
        if missing := [name for name in self.drop if name not in columns]:
            raise DataError(f"{self.path}: drop: no column {missing[0]!r}; it has {', '.join(columns)}")
        others = {self.label, self.test, self.owner, *self.drop}
        found = {name: cells for name, cells in columns.items() if name not in others}
        if not found:
            raise DataError(f"{self.path}: no columns are left for features besides {self.label!r}")
        return found


def read_table(path: Path, label: str) -> Columns:
    """The columns of a file as text, by their names; without `label`, none is needed."""
    try:
        rows = hold_rows(_rows(path), path)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as a table of text ({error})") from error
    if len(rows) < 2:
        raise DataError(f"{path}: no rows; expected a line of column names and a line for each sample")
    names = [name.strip() for name in rows[0]]
    if other := [sign for sign in ("|",) if len(names) == 1 and sign in names[0]]:
        raise DataError(
            f"{path}: its columns are separated by {other[0]!r}; csv files have commas: save it with these"
        )
    if label and label not in names:
        raise DataError(
            f"{path}: no column {label!r} for labels; it has {', '.join(names[:20])}; name it with label=…"
        )
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise DataError(f"{path}: two columns are named {twice!r}; give each its own name")
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            raise DataError(f"{path}: line {line} has {len(row)} values, the first line names {len(names)}")
    return dict(zip(names, map(list, zip(*rows[1:]))))


def _rows(path: Path) -> Iterator[list[str]]:
    with path.open(newline="", encoding="utf-8-sig") as stream:
        first = stream.readline()
        stream.seek(0)
        yield from csv.reader(stream, delimiter=_separator(first))


def _separator(first: str) -> str:
    """What stands between columns: a comma, or semicolon or tab where the first line has no comma."""
    return next((sign for sign in ",;\t" if sign in first), ",")


def _joined(train: Columns, test: Columns, where: str) -> Columns:
    if odd := sorted(train.keys() ^ test.keys()):
        raise DataError(f"{where}: column {odd[0]!r} is in one of the two files only")
    return {name: train[name] + test[name] for name in train}


def _check_filled(cells: Sequence[str], path: str, name: str, what: str) -> None:
    gap = next((row for row, cell in enumerate(cells) if is_gap(cell)), None)
    if gap is not None:
        raise DataError(f"{path}: row {gap} has no {what} (column {name!r}); fill it in, or remove the row")


def _whole_numbers(labels: list[str]) -> list[int] | list[str]:
    """Labels as whole numbers, if all are such; else as they are written."""
    try:
        return [int(label) for label in labels]
    except ValueError:
        return [label.strip() for label in labels]
