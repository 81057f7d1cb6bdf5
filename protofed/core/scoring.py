"""A client's test, counted up: what is right, and the signs by which a collapsed model is told from one
that has learned (see metrics/collapse.py). Several processes may count a part of it each: joined, the parts
give the same numbers to the bit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .answer import Score, Signs, confusion_matrix
from .data import LocalData
from .net import LiveNet, Modules
from .record import Tree

FEW = 2  # samples: a mean of so few says little of its class
ALIVE = 0.5  # share of the embeddings that must not be zero


class WatchedNet(LiveNet):
    """A net that keeps the first embeddings it made: a test looks at them without a pass of its own. What it
    gives for some inputs may be known already."""

    def __init__(self, modules: Modules, frozen: Modules, installed: Tree):
        """`installed`: what its tensors are copies of."""
        super().__init__(modules, frozen)
        self.installed = installed
        self.seen: Tensor | None = None
        self.asked_for_known = False
        self._known: tuple[Tensor, Any] | None = None

    def expect(self, x: Tensor, out: Any) -> None:
        """For these inputs the result is known."""
        self._known = x, out

    def __call__(self, *args: Tensor) -> Any:
        if self._known is not None and len(args) == 1 and args[0] is self._known[0]:
            out, self.asked_for_known = self._known[1], True
        else:
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
        self.losses: list[Tensor] = []  # of each call: added up at the end, in their order
        self.correct: dict[str, Any] = {}
        self.guessed: dict[str, Any] = {}  # mode → predictions of each class [C]
        self.confusion: dict[str, Any] = {}

    def add(self, scores: dict[str, Tensor], y: Tensor) -> None:
        """Scores [B, C, …] by mode, and labels [B, …]; negative labels are void."""
        valid = y >= 0
        self.n += int(valid.sum())
        if "clf" in scores:
            loss = torch.nn.functional.cross_entropy(scores["clf"], y, ignore_index=-1, reduction="sum")
            self.losses.append(loss)
        for mode, values in scores.items():
            guess = values.argmax(1)
            _add(self.correct, mode, (guess == y).sum())
            _add(self.guessed, mode, torch.bincount(guess[valid], minlength=values.shape[1]))
            if y.ndim > 1 or self.by_class:
                _add(self.confusion, mode, confusion_matrix(guess, y, self.classes))

    def join(self, later: Scoring) -> None:
        """Add what was counted for the samples after these."""
        self.n += later.n
        self.losses += later.losses
        for mine, other in ((self.correct, later.correct), (self.guessed, later.guessed)):
            for mode, value in other.items():
                _add(mine, mode, value)
        for mode, value in later.confusion.items():
            _add(self.confusion, mode, value)

    def score(self, client: int, signs: Signs) -> Score:
        """The client's test result; `signs` lack the guesses."""
        mean_loss = float(sum(self.losses, 0.0)) / self.n if self.n and "clf" in self.correct else math.nan
        guesses = {mode: int(counts.max()) for mode, counts in self.guessed.items()}
        right = {mode: int(count) for mode, count in self.correct.items()}
        return Score(client, self.n, right, mean_loss, self.confusion, signs._replace(guesses=guesses))


def signs_of(classes: int, train: LocalData, test: LocalData, embedded: Tensor | None) -> Signs:
    """What a test tells beside its guesses. `embedded`: embeddings of some of the test samples."""
    held = train.counts(classes)
    return Signs(
        {},
        int(test.counts(classes).max()),
        int((held > 0).sum()),
        int(((held > 0) & (held <= FEW)).sum()),
        math.nan if embedded is None else relative_spread(embedded),
    )


@dataclass(frozen=True)
class ScoredPart:
    """A client's test, or some of its chunks (see `LocalData.chunks`)."""

    client: int
    scoring: Scoring
    signs: Signs  # their spread is that of the first of these chunks
    chunks: range
    of: int  # chunks of the whole test
    seconds_before: float = 0.0  # that were spent on it ahead


def joined(parts: Iterable[ScoredPart]) -> Score:
    """The client's test result from parts that make up the whole, in any order."""
    first, *later = sorted(parts, key=lambda part: part.chunks.start)
    for part in later:
        first.scoring.join(part.scoring)
    return first.scoring.score(first.client, first.signs)


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
