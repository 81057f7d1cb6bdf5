"""Attackers train honestly on wrong labels: y → C − 1 − y, or one class in place of another."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...core.data import LocalData
from ...core.options import option
from ...core.task import Task
from ._base import Attack, attacks


@attacks.register("labelflip")
@dataclass(frozen=True)
class LabelFlip(Attack):
    """Training on wrong labels."""

    source: int | None = option(None, "the class whose labels are changed; none: all, y to C − 1 − y", low=0)
    to: int | None = option(None, "the label that it gets", low=0)

    def refusal(self, task: Task) -> str:
        if (self.source is None) != (self.to is None):
            return "source and to belong together: give both, or none for y → C − 1 − y"
        if max(self.source or 0, self.to or 0) >= task.C:
            return f"source and to are classes from 0 to {task.C - 1}"
        if self.source is not None and self.source == self.to:
            return f"source and to are the same class, {self.to}"
        return ""

    def poison(self, data: LocalData, task: Task, client: int) -> LocalData:
        flipped = self._map(task.C).to(data.y.device)[data.y.clamp(min=0)]
        return replace(data, y=torch.where(data.y >= 0, flipped, data.y))

    def target(self, classes: int) -> Tensor:
        return self._map(classes)

    @property
    def wanted(self) -> str:
        return "samples of honest clients that are taken for the class of the wrong label"

    def _map(self, classes: int) -> Tensor:
        if self.source is None or self.to is None:
            return torch.arange(classes).flip(0)
        return torch.arange(classes).index_fill(0, torch.tensor([self.source]), self.to)
