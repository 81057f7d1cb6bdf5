"""The record of one round, a line of metrics.jsonl: its scores, and its other numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .modes import miou_of

if TYPE_CHECKING:
    from ..core.answer import Score

STATS = ("mean", "std", "worst", "worst10", "pooled")
RoundRecord = dict[str, Any]
Scores = dict[str, dict[str, float]]  # mode → statistic over the clients → value


def scores_of(record: RoundRecord) -> Scores:
    """Accuracies and mIoU of a round's test, all statistics; empty if there was none."""
    if not record.get("acc"):
        return {}
    dense = {
        miou_of(mode, objects): {"mean": v, "pooled": v}
        for objects, key in ((False, "miou"), (True, "miou_objects"))
        for mode, v in (record.get(key) or {}).items()
    }
    return {
        mode: {stat: number_in(values, [stat]) for stat in STATS}
        for mode, values in {**record["acc"], **dense}.items()
    }


def per_client(scores: Sequence[Score]) -> dict[str, Any]:
    """A test as a line of clients.jsonl: test samples, and accuracies by mode, null for a client without."""
    modes = next((s.correct for s in scores if s.n), {})
    acc = {m: [100.0 * s.correct[m] / s.n if s.n else None for s in scores] for m in modes}
    return {"clients": [s.client for s in scores], "n": [s.n for s in scores], "acc": acc}


def headline(record: RoundRecord, modes: Sequence[str]) -> str:
    """A round's accuracy in the main mode, for a line of progress; empty without a test.

    >>> headline({"round": 1, "acc": {"clf": {"mean": 50.0}}}, ["gp_all", "clf"])
    'clf 50.00 %'
    """
    scores = scores_of(record)
    return f"{(mode := in_order(scores, modes)[0])} {scores[mode]['mean']:.2f} %" if scores else ""


def in_order(found: Mapping[str, Any], modes: Sequence[str]) -> list[str]:
    """The modes that were found, in a method's order; others after them."""
    return sorted(found, key=lambda mode: modes.index(mode) if mode in modes else len(modes))


def number_in(record: Any, keys: Sequence[str], missing: float = math.nan) -> float:
    """The number under these keys as it is; `missing` for none, null, NaN and infinities.

    >>> number_in({"up": {"bytes": 40}}, ["up", "bytes"]), number_in({"up": None}, ["up", "bytes"])
    (40, nan)
    """
    for key in keys:
        record = record.get(key) if isinstance(record, Mapping) else None
    known = isinstance(record, int | float) and math.isfinite(record)
    return record if known else missing
