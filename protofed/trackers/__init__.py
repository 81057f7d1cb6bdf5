"""Where the numbers of a run may go besides its directory: CSV, Parquet, TensorBoard, MLflow.

A tracker is written "kind" or "kind:target": `--track csv`, `--track tensorboard:logs`,
`--track mlflow:http://127.0.0.1:5000`. The run directory stays the truth: `protofed track RUN --to KIND`
hands a run over afterwards, and gives the same.
"""

from __future__ import annotations

from ..core.errors import ConfigError, unknown
from .base import Tracker, Tracking
from .mlflow import Mlflow
from .tabular import CsvTracker, ParquetTracker
from .tensorboard import TensorBoard

__all__ = ["KINDS", "Tracker", "Tracking", "open_tracker"]

KINDS: dict[str, type[Tracker]] = {
    tracker.kind: tracker for tracker in (CsvTracker, ParquetTracker, TensorBoard, Mlflow)
}


def open_tracker(text: str) -> Tracker:
    """The tracker of a written form. What it needs is checked here, before a run starts."""
    kind, _, target = text.partition(":")
    if kind not in KINDS:
        raise ConfigError(unknown("tracker", kind, KINDS))
    tracker = KINDS[kind](target)
    tracker.check()
    return tracker
