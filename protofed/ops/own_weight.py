"""How much a client's own samples count in its copy of a pooled classifier, and how sure that classifier is.

A client's sums lie among everybody's, once. Where its inputs or labels differ from the others' they should
count more. Which weight w and temperature T are right is told by samples that the classifier has not seen:

    folds     the r-th sample of a class at this client is in fold r mod J
    score     sample i of fold j: the discriminant of  others + w · (own − fold j)
    choice    w and T with the least cross-entropy of score / T + log π over the samples

Only samples whose class has a second one at this client are scored: a class that is new to it says nothing of
how it treats the classes that it has. If there is none, nothing of the client itself is known while scoring.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .moments import LinearHead, Moments, gaussian_head, moments_of, temper
from .prototypes import one_hot

WEIGHTS = (1.0, 4.0, 16.0)  # how often a client's own samples may count
FOLDS = 5  # J


class OwnHead(NamedTuple):
    """A client's classifier: its own samples counted `weight` times, scores divided by `temperature`."""

    head: LinearHead
    weight: float
    temperature: float


def folds_of(y: Tensor, classes: int, folds: int = FOLDS) -> Tensor:
    """Fold of each sample [n]: its place among the samples of its class, mod `folds`."""
    hot = one_hot(y, classes, torch.int64)
    return ((hot.cumsum(0) * hot).sum(1) - 1) % folds


def unseen_scores(features: Tensor, y: Tensor, others: Moments, own: Moments, weight: float) -> Tensor:
    """[n, C]: each sample scored without its fold; own samples else count `weight` times."""
    classes = len(own.n)
    fold = folds_of(y, classes)
    scores = features.new_empty(len(y), classes)
    for j in sorted(set(fold.tolist())):
        mine = fold == j
        kept = own.plus(moments_of([(features[mine], y[mine])], classes, len(own.gram) > 0), -1)
        scores[mine] = gaussian_head(others.plus(kept.times(weight))).scores(features[mine])
    return scores


def own_head(features: Tensor, y: Tensor, others: Moments, own: Moments, prior: Tensor) -> list[OwnHead]:
    """The classifier for each weight, the one that unseen samples favour first; of equal ones, the smaller
    weight. Features and labels may be a part of the samples that are in `own`."""
    twice = own.n[y] > 1
    scored = twice if bool(twice.any()) else ~twice
    known = (others.n > 0) | (own.n > 1)
    found = []
    for weight in WEIGHTS:
        scores = unseen_scores(features, y, others, own, weight)[scored]
        t, cost = temper(scores, y[scored], prior, known)
        head = gaussian_head(others.plus(own.times(weight)))
        found.append((cost, OwnHead(head, weight, t)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]
