"""What an accuracy has to be held against, and whether models have collapsed: numbers from clients' tests.

A prediction counts as constant where clients give nearly all their test samples to one class although these
are of several; embeddings and prototypes have collapsed where they are all equal, or all zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.answer import Score

OTHERS = 0.1  # constant: predicted beside the main class, at most this share of what is of another class
EQUAL = 1e-3  # relative spread below which vectors count as equal
FALLEN = 0.01  # share by which a loss has to fall
ROUNDS = 5  # before which nothing is said of the loss
LATEST = 3  # rounds whose mean loss is compared


@dataclass(frozen=True)
class Baseline:
    """What predictions reach that know nothing of the inputs: mean over clients, in percent."""

    majority: float  # always the class that is most frequent in the client's own test samples
    chance: float  # any class, drawn
    chance_own: float  # any class of the client's training samples, drawn


@dataclass(frozen=True)
class Collapse:
    """What the signs of all tested clients come to."""

    constant: Mapping[str, float]  # mode → share of the class predicted most, where it is constant
    equal: int  # clients whose embeddings are all equal
    embedded: int  # clients of whose embeddings that is known
    few: float  # share of the classes that clients train on with one or two samples


def baseline(scores: Sequence[Score], classes: int) -> Baseline | None:
    """None without test samples."""
    tested = [score for score in scores if score.n and score.signs.own]
    if not tested:
        return None
    majority = [score.signs.majority / score.n for score in tested]
    own = [1 / score.signs.own for score in tested]
    return Baseline(100 * _mean(majority), 100 / classes, 100 * _mean(own))


def collapse(scores: Sequence[Score]) -> Collapse:
    """Of all clients together."""
    mixed = [score for score in scores if 0 < score.signs.majority < score.n]
    n, other = sum(s.n for s in mixed), sum(s.n - s.signs.majority for s in mixed)
    constant = {}
    for mode in mixed[0].signs.guesses if mixed else ():
        if not all(mode in score.signs.guesses for score in mixed):
            continue
        most = sum(score.signs.guesses[mode] for score in mixed)
        if n - most <= OTHERS * other:
            constant[mode] = most / n
    spreads = [score.signs.spread for score in scores if not math.isnan(score.signs.spread)]
    own, few = (sum(getattr(score.signs, name) for score in scores) for name in ("own", "few"))
    return Collapse(constant, sum(s < EQUAL for s in spreads), len(spreads), few / own if own else 0.0)


def still_as_high(losses: Sequence[float]) -> bool:
    """Whether the training loss has not fallen below that of the first rounds.

    The highest of the first ones counts: many methods add terms once there are prototypes.

    >>> still_as_high([2.3] * 6), still_as_high([2.3, 2.4, 2.2, 1.9, 1.5, 1.2])
    (True, False)
    """
    known = [loss for loss in losses if math.isfinite(loss)]
    if len(known) < ROUNDS:
        return False
    first = max(known[:LATEST])
    return _mean(known[-LATEST:]) > first - FALLEN * abs(first)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
