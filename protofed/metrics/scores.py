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
from .analysis import confusion_matrix, fairness, miou


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
        n += int((y >= 0).sum())
        if "clf" in scores:
            loss = loss + torch.nn.functional.cross_entropy(
                scores["clf"], y, ignore_index=-1, reduction="sum"
            )
        for mode, values in scores.items():
            guess = values.argmax(1)
            correct[mode] = correct.get(mode, torch.zeros((), dtype=torch.int64)) + (guess == y).sum()
            if y.ndim > 1:
                seen = confusion_matrix(guess, y, task.C)
                confusion[mode] = confusion[mode] + seen if mode in confusion else seen
    mean_loss = float(loss) / n if n and "clf" in correct else math.nan
    return Score(turn.client, n, {m: int(c) for m, c in correct.items()}, mean_loss, confusion)


def summarise(scores: Sequence[Score]) -> dict[str, Any]:
    """Mean, std (ddof 0), worst client, worst tenth and pooled accuracy per mode, in percent.

    Clients without test samples are left out. Dense labels: samples are pixels, and `miou` is taken
    on the pixels of all clients together.
    """
    tested = [s for s in scores if s.n]
    result: dict[str, Any] = {"acc": {}, "tested_clients": len(tested)}
    if not tested:
        return result
    for mode in tested[0].correct:
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
        pooled = {m: torch.stack([s.confusion[m] for s in tested]).sum(0) for m in tested[0].confusion}
        result["miou"] = {mode: miou(counts) for mode, counts in pooled.items()}
    return result
