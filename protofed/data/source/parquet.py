"""Parquet files in the Hugging Face layout: an image column with bytes, a label column.

A folder: files whose names begin with train, and with test (or validation, val), at any depth. One
file, or files without such names: no published split, so a fixed stratified quarter becomes test.
Class names come from the metadata; text labels become classes in alphabetical order.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...core.bounded_files import check_size, opening
from ...core.errors import DataError
from ...core.options import option
from ..base import Dataset, sources
from ..cache import cached
from ..images import decode_images
from ..labels import numbered_classes
from .common import ImageSource, as_dataset, imported
from .stratify import stratified_test

IMAGE_COLUMNS = ("image", "img")
ROW_BYTES = 64  # of a row in lists of Python, at least
TEST_NAMES = ("test", "validation", "val")


@sources.register("parquet")
@dataclass(frozen=True)
class Parquet(ImageSource):
    """parquet:PATH, a file or folder in the Hugging Face layout."""

    positional: ClassVar[str] = "path"
    path: str = option("", "a .parquet file, or a folder with train and test files")
    label: str = option("label", "the label column")
    domain: str = option("domain", "the domain column, if there is one")
    owner: str = option("owner", "the column of natural owners, if there is one")
    size: int | None = option(None, "resize images to this many pixels square", low=1)

    def load(self) -> Dataset:
        if not self.path:
            raise DataError("parquet: no path given; write parquet:PATH")
        train, test = find_files(Path(self.path))
        options = {"label": self.label, "domain": self.domain, "owner": self.owner, "size": self.size}
        name = Path(self.path).stem
        arrays = cached(name, train + test, options, lambda: self.decode(train, test, name))
        return self.finish(as_dataset(name, arrays))

    def decode(self, train: Sequence[Path], test: Sequence[Path], name: str) -> dict[str, np.ndarray]:
        """Images, labels and further columns of all files as one table."""
        wanted = {*IMAGE_COLUMNS, self.label, self.domain, self.owner}
        columns, names = read_files([*train, *test], self.label, wanted)
        image = next((c for c in IMAGE_COLUMNS if c in columns), None)
        if image is None or self.label not in columns:
            needed = f"{' or '.join(IMAGE_COLUMNS)} and {self.label}"
            raise DataError(f"{self.path}: needs the columns {needed}; it has {_columns_of(train[0])}")
        if odd := [type(one).__name__ for one in columns[image] if not isinstance(one, tuple)]:
            raise DataError(
                f"{self.path}: column {image!r} holds a {odd[0]}, expected encoded images (bytes); numbers "
                "in columns are read by csv:PATH, arrays by npz:PATH"
            )
        y, classes = ids_of(columns[self.label], names, self.path)
        made = {"x": decode_images(columns[image], self.size), "y": y, "classes": classes}
        for column in ("domain", "owner"):
            if (key := getattr(self, column)) in columns:
                if None in columns[key]:
                    raise DataError(f"{self.path}: row {columns[key].index(None)} has no {key}")
                if len({type(value) for value in columns[key]} | {str, int}) > 2:
                    raise DataError(f"{self.path}: {key} must be whole numbers or texts")
                found, made[column] = np.unique(np.asarray(columns[key]), return_inverse=True)
                if column == "domain" or found.dtype.kind == "U":
                    made[f"{column}s"] = found.astype(str)
        made["test"] = self._test(columns["file"], len(train), made, name)
        return made

    def _test(self, file: Any, train: int, made: dict[str, np.ndarray], name: str) -> np.ndarray:
        if max(file) >= train:
            return np.asarray(file) >= train
        domain = made.get("domain", np.zeros_like(made["y"]))
        return stratified_test(domain * len(made["classes"]) + made["y"], 0.25, name)


def find_files(path: Path) -> tuple[list[Path], list[Path]]:
    """Training files and test files of a path."""
    if path.is_file():
        return [path], []
    files = sorted(path.rglob("*.parquet"))
    if not files:
        raise DataError(f"{path}: no such file, nor a folder with .parquet files")
    for name in TEST_NAMES:
        test = [f for f in files if f.name.startswith(name)]
        if test:
            train = [f for f in files if f.name.startswith("train")]
            if not train:
                raise DataError(f"{path}: has {test[0].name} but no file whose name begins with train")
            return train, test
    return files, []


def read_files(
    files: Sequence[Path], label: str, wanted: Collection[str]
) -> tuple[dict[str, list[Any]], list[str] | None]:
    """The wanted columns of all files joined, the number of each row's file as "file", and class names.

    Image columns become pairs of a name for errors and the bytes. What a file says of its size is looked at
    first, and columns that nobody wants are not read.
    """
    parquet = imported("pyarrow.parquet", "data", "parquet")
    columns: dict[str, list[Any]] = {"file": []}
    names: list[str] | None = None
    for number, path in enumerate(files):
        with opening(path, "parquet"), parquet.ParquetFile(path) as file:
            check_size(_declared(file.metadata), path)
            there = [name for name in file.schema_arrow.names if name in wanted]
            table = file.read(there)
            names = names or _class_names(table.schema, label)
            columns["file"] += [number] * len(table)
            for key in table.column_names:
                values = table.column(key).to_pylist()
                columns.setdefault(key, []).extend(_blobs(values, f"{path} {key}"))
    rows = len(columns["file"])
    if not rows:
        raise DataError(f"{files[0]}: no rows")
    if short := [key for key, values in columns.items() if len(values) != rows]:
        raise DataError(f"{files[0].parent}: column {short[0]!r} is missing in some of the files")
    return columns, names


def ids_of(values: Sequence[Any], names: Sequence[str] | None, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Class ids and class names of a column of numbers or texts."""
    if any(value is None for value in values):
        raise DataError(f"{where}: row {list(values).index(None)} has no label")
    if any(isinstance(value, list | dict | tuple) for value in values):
        raise DataError(f"{where}: labels are lists; expected whole numbers or texts")
    raw = np.asarray(values)
    if raw.dtype.kind in "iub":
        return raw.astype(np.int64), np.asarray(names) if names else numbered_classes(raw, where)
    if raw.dtype.kind != "U":
        raise DataError(f"{where}: labels have type {raw.dtype}; expected whole numbers or texts")
    found, ids = np.unique(raw, return_inverse=True)
    return ids.astype(np.int64), found


def _blobs(values: list[Any], where: str) -> list[Any]:
    first = values[0] if values else None
    if not isinstance(first, dict | bytes):
        return values
    made = []
    for row, value in enumerate(values):
        data = value.get("bytes") if isinstance(value, dict) else value
        if not data:
            raise DataError(f"{where}: row {row} has no image bytes")
        made.append((f"{where} row {row}", data))
    return made


def _class_names(schema: Any, label: str) -> list[str] | None:
    try:
        info = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        names: list[str] | None = info["info"]["features"][label].get("names")
        return names
    except (KeyError, ValueError, AttributeError):
        return None


def _declared(metadata: Any) -> int:
    """Bytes that the file takes in memory, as it says itself. (Sizes of single columns are not asked for:
    pyarrow ends the process where a damaged file lacks them.)"""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return max(sum(int(group.total_byte_size) for group in groups), ROW_BYTES * int(metadata.num_rows))


def _columns_of(path: Path) -> str:
    schema = imported("pyarrow.parquet", "data", "parquet").read_schema(path)
    return ", ".join(schema.names[:20])
