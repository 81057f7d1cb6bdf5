"""Accuracy over clients, always under the name of a prediction mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..core.answer import Score
from .formulas import fairness, miou


def summarise(scores: Sequence[Score], by_class: bool = False) -> dict[str, Any]:
    """Mean, std (ddof 0), worst client, worst tenth and pooled accuracy per mode, in percent.

    Clients without test samples are left out. Dense labels: samples are pixels, and `miou` is taken
    on the pixels of all clients together, over all classes and over all but the background (class 0).
    `by_class`: labels are of whole samples, and the accuracy of each class is asked for.
    """
    tested = [s for s in scores if s.n]
    result: dict[str, Any] = {"acc": {}, "tested_clients": len(tested)}
    if not tested:
        return result
    for mode in (mode for mode in tested[0].correct if all(mode in score.correct for score in tested)):
        values = torch.tensor([100.0 * s.correct[mode] / s.n for s in tested], dtype=torch.float64)
        spread = fairness(values)
        result["acc"][mode] = {
            "mean": float(values.mean()),
            "std": spread.std,
            "worst": spread.worst,
            "worst10": spread.worst10,
            "pooled": 100.0 * sum(s.correct[mode] for s in tested) / sum(s.n for s in tested),
        }
    result["test_loss"] = sum(s.loss * s.n for s in tested) / sum(s.n for s in tested)
    if tested[0].confusion:
        shared = [mode for mode in tested[0].confusion if all(mode in s.confusion for s in tested)]
        pooled = {m: torch.stack([s.confusion[m] for s in tested]).sum(0) for m in shared}
        if by_class:
            return {**result, "class_acc": {mode: _by_class(counts) for mode, counts in pooled.items()}}
        result["miou"] = {mode: miou(counts) for mode, counts in pooled.items()}
        result["miou_objects"] = {mode: miou(counts, background=False) for mode, counts in pooled.items()}
    return result


def _by_class(counts: Tensor) -> list[float | None]:
    """Accuracy of each class in percent; None without samples."""
    right, number = counts.diagonal().tolist(), counts.sum(1).tolist()
    return [100.0 * hits / n if n else None for hits, n in zip(right, number)]
