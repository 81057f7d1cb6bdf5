"""Accuracy of one client, and its summary over clients, always under the name of a prediction mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..core.client import ClientState, assemble
from ..core.data import LocalData
from ..core.record import Record
from ..core.task import Turn


class Score(NamedTuple):
    """Test result of one client. `confusion` [C, C] per mode (rows: truth) only for dense labels."""

    client: int
    n: int
    correct: dict[str, int]
    loss: float
    confusion: dict[str, Tensor]


@torch.no_grad()
def score_client(
    turn: Turn, state: ClientState | None, train: LocalData, test: LocalData, down: Record
) -> Score:
    """Test a client's model, with the newest download, on its test samples."""
    task, algorithm = turn.task, turn.task.algorithm
    assert turn.client is not None
    net = task.live(turn.group)
    net.install(assemble(task, turn, state, down))
    for module in net.modules.values():
        module.eval()
    mem = state.mem if state else {}
    correct: dict[str, Tensor] = {}
    confusion: dict[str, Tensor] = {}
    loss, n = torch.zeros((), dtype=task.dtype), 0
    for x, y in test.chunks():
        scores = algorithm.predict(net, x, train, down, mem)
        valid = y >= 0
        n += int(valid.sum()) if y.ndim > 1 else len(y)
        if "clf" in scores:
            loss = loss + torch.nn.functional.cross_entropy(
                scores["clf"], y, ignore_index=-1, reduction="sum"
            )
        for mode, values in scores.items():
            guess = values.argmax(1)
            correct[mode] = correct.get(mode, torch.zeros((), dtype=torch.int64)) + (guess == y).sum()
            if y.ndim > 1:
                pairs = y[valid] * task.C + guess[valid]
                seen = torch.bincount(pairs, minlength=task.C**2).reshape(task.C, task.C)
                confusion[mode] = confusion[mode] + seen if mode in confusion else seen
    mean_loss = float(loss) / n if n else math.nan
    return Score(turn.client, n, {m: int(c) for m, c in correct.items()}, mean_loss, confusion)


def summarise(scores: Sequence[Score]) -> dict[str, Any]:
    """Mean, std (ddof 0), worst client, worst tenth and pooled accuracy per mode, in percent.

    Clients without test samples are left out.
    """
    tested = [s for s in scores if s.n]
    result: dict[str, Any] = {"acc": {}, "tested_clients": len(tested)}
    if not tested:
        return result
    for mode in tested[0].correct:
        values = torch.tensor([100.0 * s.correct[mode] / s.n for s in tested], dtype=torch.float64)
        ordered = values.sort().values
        tenth = ordered[: max(1, math.ceil(len(ordered) / 10))]
        result["acc"][mode] = {
            "mean": float(values.mean()),
            "std": float(values.std(correction=0)),
            "worst": float(ordered[0]),
            "worst10": float(tenth.mean()),
            "pooled": 100.0 * sum(s.correct[mode] for s in tested) / sum(s.n for s in tested),
        }
    result["test_loss"] = sum(s.loss * s.n for s in tested) / sum(s.n for s in tested)
    if tested[0].confusion:
        result["miou"] = {mode: _miou([s.confusion[mode] for s in tested]) for mode in tested[0].confusion}
    return result


def _miou(confusions: Sequence[Tensor]) -> float:
    """Mean over classes of TP/(TP+FP+FN) on the pooled pixels, in percent; absent classes are skipped."""
    total = torch.stack(list(confusions)).sum(0).to(torch.float64)
    union = total.sum(0) + total.sum(1) - total.diag()
    present = union > 0
    return float(100 * (total.diag()[present] / union[present]).mean())
