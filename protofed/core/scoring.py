"""A client's test, counted up: what is right, and the signs by which a collapsed model is told from one
that has learned (see metrics/collapse.py)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .answer import Score, Signs, confusion_matrix
from .data import LocalData
from .net import LiveNet

FEW = 2  # samples: a mean of so few says little of its class
ALIVE = 0.5  # share of the embeddings that must not be zero


class WatchedNet(LiveNet):
    """A net that keeps the first embeddings it made: a test looks at them without a pass of its own."""

    seen: Tensor | None = None

    def __call__(self, *args: Tensor) -> Any:
        out = super().__call__(*args)
        self._keep(out[0] if isinstance(out, tuple | list) else None)
        return out

    def embed(self, x: Tensor) -> Tensor:
        z = super().embed(x)
        self._keep(z)
        return z

    def _keep(self, z: Any) -> None:
        if self.seen is None and isinstance(z, Tensor) and z.ndim > 1:
            self.seen = z.movedim(1, -1).reshape(-1, z.shape[1])  # feature maps: a row for each position


class Scoring:
    """Adds up the predictions for some samples after the other."""

    def __init__(self, classes: int, by_class: bool = False):
        self.classes = classes
        self.by_class = by_class
        self.n = 0
        self.loss: Tensor | float = 0.0
        self.correct: dict[str, Any] = {}
        self.guessed: dict[str, Any] = {}  # mode → predictions of each class [C]
        self.confusion: dict[str, Any] = {}

    def add(self, scores: dict[str, Tensor], y: Tensor) -> None:
        """Scores [B, C, …] by mode, and labels [B, …]; negative labels are void."""
        valid = y >= 0
        self.n += int(valid.sum())
        if "clf" in scores:
            loss = torch.nn.functional.cross_entropy(scores["clf"], y, ignore_index=-1, reduction="sum")
            self.loss = self.loss + loss
        for mode, values in scores.items():
            guess = values.argmax(1)
            _add(self.correct, mode, (guess == y).sum())
            _add(self.guessed, mode, torch.bincount(guess[valid], minlength=values.shape[1]))
            if y.ndim > 1 or self.by_class:
                _add(self.confusion, mode, confusion_matrix(guess, y, self.classes))

    def score(self, client: int, train: LocalData, test: LocalData, embedded: Tensor | None) -> Score:
        """The client's test result. `embedded`: embeddings of some of its test samples."""
        mean_loss = float(self.loss) / self.n if self.n and "clf" in self.correct else math.nan
        held = train.counts(self.classes)
        signs = Signs(
            {mode: int(counts.max()) for mode, counts in self.guessed.items()},
            int(test.counts(self.classes).max()),
            int((held > 0).sum()),
            int(((held > 0) & (held <= FEW)).sum()),
            math.nan if embedded is None else relative_spread(embedded),
        )
        right = {mode: int(count) for mode, count in self.correct.items()}
        return Score(client, self.n, right, mean_loss, self.confusion, signs)


def relative_spread(rows: Tensor) -> float:
    """How far rows [N, D] lie from their mean, relative to their length: 0 if all are equal, about 1 if they
    point everywhere. Also 0 if most are zero; NaN for a single row.

    >>> relative_spread(torch.zeros(3, 2)), relative_spread(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    (0.0, 1.0)
    """
    if len(rows) < 2:
        return math.nan
    if float(rows.any(1).float().mean()) < ALIVE:
        return 0.0
    return math.sqrt(float((rows - rows.mean(0)).square().sum() / rows.square().sum()))


def _add(sums: dict[str, Any], mode: str, value: Tensor) -> None:
    sums[mode] = sums[mode] + value if mode in sums else value
