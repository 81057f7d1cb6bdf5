"""Time series that the package aeon brings along: aeon:BasicMotions. Or .ts files of your own, with `folder`.

aeon is not imported, and need not run: its wheel holds the files, which `ts_files` reads. So the numba and
numpy versions that it asks for do not matter (pip install --no-deps aeon). Train and test are its own files.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np

from ...core.errors import DataError, unknown
from ...core.options import option
from ..base import Dataset, Source, sources
from ..inputs import InputRule
from ..ts_files import read_ts, stacked


@sources.register("aeon")
@dataclass(frozen=True)
class Aeon(Source):
    """aeon:NAME, a set of time series in the package aeon, such as BasicMotions or JapaneseVowels."""

    positional: ClassVar[str] = "set"
    set: str = option("BasicMotions", "name of the set: NAME_TRAIN.ts and NAME_TEST.ts")
    folder: str = option("", "where the files lie; default: in the installed package aeon")
    length: int | None = option(None, "cut or continue series to this length; default: the longest", low=1)
    standardise: bool = option(True, "scale channels by mean and standard deviation of the training rows")

    def load(self) -> Dataset:
        folder = Path(self.folder).expanduser() if self.folder else _packaged(self.set)
        train, test = (read_ts(folder / f"{self.set}_{part}.ts") for part in ("TRAIN", "TEST"))
        x, short = stacked([*train[0], *test[0]], self.length, self.set)
        classes, y = np.unique([*train[1], *test[1]], return_inverse=True)
        is_test = np.arange(len(y)) >= len(train[1])
        mean = std = None
        if self.standardise:
            seen = x[~is_test].astype(np.float64)
            mean = tuple(float(m) for m in seen.mean(axis=(0, 2)))
            std = tuple(float(s) or 1.0 for s in seen.std(axis=(0, 2)))
        rule = InputRule(x.shape[1:], mean=mean, std=std, reading={"kind": self.name})
        names = tuple(str(name) for name in classes)
        parts = (self.set, x, y.astype(np.int64), is_test, names)
        return Dataset(*parts, mean=mean, std=std, rules=(rule,), notes=self._notes(short, x))

    def _notes(self, short: int, x: np.ndarray) -> tuple[str, ...]:
        if not short:
            return ()
        return (
            f"{self.set}: {short} of {len(x)} series are shorter than {x.shape[2]} and go on with their "
            "last value",
        )


def _packaged(name: str) -> Path:
    found = find_spec("aeon")
    if found is None or found.origin is None:
        raise DataError(
            f"aeon:{name} needs the files of the package aeon: install 'protofed[series]', or aeon without "
            "its dependencies; or name the folder of your own .ts files with folder=…"
        )
    data = Path(found.origin).parent / "datasets" / "data"
    there = sorted(
        file.parent.name for file in data.glob("*/*_TRAIN.ts") if file.stem == f"{file.parent.name}_TRAIN"
    )
    if name not in there:
        raise DataError(f"aeon: {unknown('set', name, there)}; other sets: folder=…")
    return data / name
