"""A run's rounds as one table, a column per number: metrics.csv or metrics.parquet.

Written when the run ends, from the lines on disk, so that a resumed run gives the whole table.
"""

from __future__ import annotations

import csv
import io
from abc import abstractmethod
from pathlib import Path
from typing import Any

from ..core.errors import RunError
from ..core.escape import csv_cell
from ..runs.directory import RunDir
from ..runs.files import write_atomic
from ..runs.outcome import Outcome
from ..runs.records import RoundRecord
from .base import Tracker, numbers


class _Tabular(Tracker):
    def begin(self, run: RunDir) -> None:
        if not (folder := self._path(run).parent).is_dir():
            raise RunError(f"cannot write {self._path(run)}: there is no folder {folder}")

    def round(self, record: RoundRecord) -> None:
        pass

    def end(self, run: RunDir, finished: bool) -> None:
        write_atomic(self._path(run), self.encode(table_of(run)))

    def _path(self, run: RunDir) -> Path:
        return Path(self.target) if self.target else run.path / f"metrics.{self.kind}"

    @abstractmethod
    def encode(self, table: dict[str, list[float | None]]) -> bytes:
        """The file's contents."""


class CsvTracker(_Tabular):
    """csv[:FILE]"""

    kind = "csv"

    def encode(self, table: dict[str, list[float | None]]) -> bytes:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(map(csv_cell, table))
        writer.writerows(["" if cell is None else cell for cell in row] for row in zip(*table.values()))
        return out.getvalue().encode()


class ParquetTracker(_Tabular):
    """parquet[:FILE]"""

    kind = "parquet"
    needs = ("pyarrow", "data")

    def encode(self, table: dict[str, list[float | None]]) -> bytes:
        import pyarrow
        import pyarrow.parquet

        out: Any = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(pyarrow.table(table), out)
        return bytes(out.getvalue())


def table_of(run: RunDir) -> dict[str, list[float | None]]:
    """Columns of all numbers; None where a round was not tested."""
    rows = [numbers(line) for line in Outcome.read(run.path).lines]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}
