"""A split made by PFLlib or HtFLlib: pfllib:DIR. Divide it with the partition `pfllib`.

Inputs are kept as they were written, which is normalised already.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from ...core.errors import DataError
from ...core.options import option
from ..base import Dataset, Source, sources
from ..labels import numbered_classes
from ..pfllib_files import read_clients

MOST_CLASSES = 1_000_000


@sources.register("pfllib")
@dataclass(frozen=True)
class PflLibSource(Source):
    """pfllib:DIR with train/0.npz…, test/0.npz…"""

    positional: ClassVar[str] = "path"
    path: str = option("", "the folder that holds train/ and test/")

    def load(self) -> Dataset:
        folder = Path(self.path)
        if not self.path or not folder.is_dir():
            raise DataError(f"pfllib: {self.path!r} is not a folder; write pfllib:DIR")
        train, test = read_clients(folder, "train"), read_clients(folder, "test")
        if len(train) != len(test):
            raise DataError(f"pfllib: {folder} has {len(train)} clients in train, {len(test)} in test")
        parts = [*train, *test]
        sizes = [len(y) for _, y in parts]
        _check_alike(folder, parts)
        y = np.concatenate([y for _, y in parts]).astype(np.int64)
        return Dataset(
            name=folder.name,
            x=np.concatenate([x for x, _ in parts]).astype(np.float32, copy=False),
            y=y,
            test=np.repeat(np.arange(len(parts)) >= len(train), sizes),
            classes=tuple(str(c) for c in range(_num_classes(folder, y))),
            owner=np.repeat(np.tile(np.arange(len(train)), 2), sizes),
        )


def _check_alike(folder: Path, parts: list[tuple[np.ndarray, np.ndarray]]) -> None:
    shapes, labels = {x.shape[1:] for x, _ in parts}, {y.ndim for _, y in parts}
    if len(shapes) > 1 or labels != {1}:
        raise DataError(
            f"pfllib: {folder}: samples of the shapes {sorted(shapes)[:3]}, labels with {sorted(labels)} "
            "axes; expected one shape, and one label a sample"
        )


def _num_classes(folder: Path, y: np.ndarray) -> int:
    found = len(numbered_classes(y, str(folder)))
    try:
        told = int(json.loads((folder / "config.json").read_text())["num_classes"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return found
    if not 1 <= told <= MOST_CLASSES:
        raise DataError(f"pfllib: {folder / 'config.json'}: num_classes is {told}; at most {MOST_CLASSES:,}")
    return told
