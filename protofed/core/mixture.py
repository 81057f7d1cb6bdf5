"""`ens`: classifier and prototypes of one client decide together, weighed by what its held-out samples say.

    score = α · log softmax(classifier) + (1 − α) · log softmax(prototype scores + log π)
    π_c = (n_c + 1) / (n + C)      the classes among the client's training samples

α is one of 0, 0.1, …, 1, the one under which the labels of the client's validation samples are most likely;
of equal ones the largest, so a client that is too small to hold any out has its classifier alone. Any method
whose `predict` gives `clf` and `gp_all` has this mode, so that none wins by the rule by which its scores are
read. Of the held-out samples themselves, every other one is scored by an α that the rest chose, so that this
mode is not flattered where modes are chosen by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import log_softmax, nll_loss

from .data import ClassCounts, LocalData

ENS = "ens"
PARTS = ("clf", "gp_all")
SHARES = torch.arange(11, dtype=torch.float64) / 10
LOWEST = -100.0  # log probability of a class without a prototype
Predict = Callable[[Tensor], dict[str, Tensor]]


def mixes(modes: tuple[str, ...]) -> bool:
    """Whether a method with these prediction modes can have `ens` too."""
    return set(PARTS) <= set(modes)


@dataclass(frozen=True)
class Mixture:
    """How a client mixes its two predictions."""

    share: float  # α
    log_prior: Tensor  # [C]

    def add(self, scores: dict[str, Tensor]) -> dict[str, Tensor]:
        """Scores [B, C] by mode, with those of the mixture."""
        clf, protos = log_parts(scores, self.log_prior)
        return {**scores, ENS: self.share * clf + (1 - self.share) * protos}


def log_prior(train: LocalData | ClassCounts, classes: int) -> Tensor:
    """log π [C].

    >>> log_prior(LocalData(torch.zeros(2, 1), torch.tensor([0, 0])), 2).exp().tolist()
    [0.75, 0.25]
    """
    counts = train.counts(classes).double()
    return ((counts + 1) / (counts.sum() + classes)).log()


def log_parts(scores: dict[str, Tensor], prior: Tensor) -> tuple[Tensor, Tensor]:
    """Log probabilities [B, C] by the classifier, and by the prototypes with the prior."""
    clf, protos = (scores[part].double() for part in PARTS)
    return log_softmax(clf, 1), log_softmax(protos + prior, 1).clamp(min=LOWEST)


def fit_mixture(predict: Predict, train: LocalData, held: LocalData, classes: int) -> Mixture | None:
    """The mixture of a client; None if its predictions lack a part, as with dense labels."""
    prior = log_prior(train, classes)
    losses = torch.zeros_like(SHARES)
    for x, y in held.chunks():
        scores = predict(x)
        if not mixes(tuple(scores)):
            return None
        clf, protos = log_parts(scores, prior)
        for i, share in enumerate(SHARES.tolist()):
            mixed = log_softmax(share * clf + (1 - share) * protos, 1)
            losses[i] += float(nll_loss(mixed, y, reduction="sum"))
    best = torch.nonzero(losses <= losses.min() + 1e-9)[-1]
    return Mixture(float(SHARES[best]), prior)


def scored_held(
    predict: Predict, train: LocalData, held: LocalData, classes: int
) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """Scores by mode and labels of the held-out samples; each half is mixed as the other half says."""
    halves = [LocalData(held.x[i::2], held.y[i::2]) for i in range(2)]
    for own, other in (halves, halves[::-1]):
        fitted = fit_mixture(predict, train, other, classes)
        for x, y in own.chunks():
            scores = predict(x)
            yield (fitted.add(scores) if fitted else scores), y
