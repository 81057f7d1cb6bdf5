"""Predictions as text: a csv table, or JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import numpy as np

from ..core.errors import ConfigError
from ..data.new_rows import NewRows
from .predicted import Predicted


def as_csv(found: Predicted, new: NewRows) -> str:
    """A line for each sample: its name, its label where it has one, the class and the scores."""
    labelled = new.labels is not None
    head = ["sample", *(["label"] if labelled else []), "predicted", *(f"score {c}" for c in found.classes)]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(head)
    for row, (name, predicted) in enumerate(zip(new.names, found.names.tolist())):
        scores = ["" if score is None else score for score in _finite(found.scores[row])]
        table.writerow([name, *([new.labels[row]] if new.labels else []), predicted, *scores])
    return text.getvalue()


def as_json(found: Predicted, new: NewRows) -> str:
    """The same, with what all samples have in common; null for a class that the mode does not choose from."""
    rows: list[dict[str, Any]] = []
    for row, (name, predicted) in enumerate(zip(new.names, found.names.tolist())):
        label = {"label": new.labels[row]} if new.labels else {}
        scores = dict(zip(found.classes, _finite(found.scores[row])))
        rows.append({"sample": name, **label, "predicted": predicted, "scores": scores})
    about = {"mode": found.mode, "classes": found.classes, "accuracy": accuracy(found, new)}
    return json.dumps({**about, "predictions": rows}, indent=1) + "\n"


def accuracy(found: Predicted, new: NewRows) -> float | None:
    """In percent; None where the samples have no labels."""
    if new.labels is None:
        return None
    return float(100 * np.mean(found.names == np.array(new.labels)))


def check_table(found: Predicted) -> None:
    """Masks are no rows of a table."""
    if found.scores.ndim > 2:
        raise ConfigError(
            "predict: this run labels every pixel, which is no table; use protofed.load in Python"
        )


def _finite(scores: np.ndarray) -> list[float | None]:
    """Seven digits, as many as a float has."""
    return [float(f"{score:.7g}") if math.isfinite(score) else None for score in scores.tolist()]
