"""How far an attack got: its success, and the class that suffers most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..core.answer import Score
from .attacks._base import Attack, Later

DIGITS = 4


def attack_record(attack: Attack, later: Later) -> dict[str, Any]:
    """`wanted`: what counts as success; `success` in percent by mode; `victim`: the class, and its accuracy
    by mode (the lowest in the main mode, of those that are aimed at)."""
    tables = pooled(later.tested)
    target = attack.target(later.task.C)
    success = attack.success(later)
    if success is None:
        success = {mode: taken(table, target) for mode, table in tables.items()}
    found: dict[str, Any] = {"wanted": attack.wanted, "success": _rounded(success)}
    accuracy = {mode: class_accuracy(table) for mode, table in tables.items()}
    victim = _victim(accuracy, target, later.task.algorithm.modes)
    if victim is not None:
        found["victim"] = victim
        found["victim_acc"] = _rounded({mode: float(values[victim]) for mode, values in accuracy.items()})
    return found


def pooled(scores: Sequence[Score]) -> dict[str, Tensor]:
    """Confusion [C, C] by mode, of all clients together."""
    tested = [score for score in scores if score.n and score.confusion]
    modes = [m for m in tested[0].confusion if all(m in s.confusion for s in tested)] if tested else []
    return {mode: torch.stack([score.confusion[mode] for score in tested]).sum(0) for mode in modes}


def class_accuracy(table: Tensor) -> Tensor:
    """Accuracy [C] in percent of each class, NaN without samples."""
    return 100.0 * table.diagonal().double() / table.sum(1).double()


def taken(table: Tensor, target: Tensor | None) -> float:
    """Percent of the samples that are taken for their target [C], where that is another class; without
    targets, of all samples for any other class.

    >>> taken(torch.tensor([[3, 1], [2, 2]]), None)
    37.5
    >>> taken(torch.tensor([[3, 1], [2, 2]]), torch.tensor([1, 1]))
    25.0
    """
    if target is None:
        return float(100.0 * (1 - table.trace().double() / table.sum().double()))
    classes = torch.arange(len(table))
    aimed = (target != classes).nonzero()[:, 0]
    hit, all_of_them = table[aimed, target[aimed]].sum(), table[aimed].sum()
    return float(100.0 * hit.double() / all_of_them.double())


def _victim(accuracy: Mapping[str, Tensor], target: Tensor | None, modes: Sequence[str]) -> int | None:
    main = next((mode for mode in modes if mode in accuracy), None)
    if main is None:
        return None
    values = accuracy[main].nan_to_num(torch.inf)
    if target is not None:
        values = values.where(target != torch.arange(len(target)), torch.inf)
    return int(values.argmin()) if torch.isfinite(values).any() else None


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {mode: round(value, DIGITS) for mode, value in values.items()}
