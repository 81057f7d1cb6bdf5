"""What a reader of a run has to know before its accuracy: models that collapsed or have learned nothing,
each with the likely cause and what to try. Found at every test, kept in the round's record.

No judgement on a method: a finding says that a number is not a result yet.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..core.user_files import short_name
from ..metrics.collapse import EQUAL, Baseline, Collapse, baseline, collapse, still_as_high
from .modes import AMONG_OWN

if TYPE_CHECKING:
    from ..core.algorithm import Algorithm
    from ..core.answer import Score
    from ..core.record import Record

log = logging.getLogger("protofed")
ABOVE = 1.0  # points that an accuracy has to lie above that of the majority class
LEARNED = 10.0  # points above it: whatever the loss does, something has been learned
FEW_UPLOADS = 0.1  # share of the uploads that rest on one or two samples
EARLY = 10  # rounds in which nothing is said of an unfinished run
AT_THE_END = ("majority",)  # kinds that more rounds may well cure
SLOW = "train longer (rounds, epochs), or with another lr"


@dataclass(frozen=True)
class Finding:
    """One line. `modes`: the prediction modes that it spoils; none: all."""

    kind: str
    text: str
    modes: tuple[str, ...] = ()

    def spoils(self, mode: str) -> bool:
        """Whether an accuracy under this mode is meant."""
        return not self.modes or mode in self.modes


@dataclass(frozen=True)
class Learning:
    """What findings are made of, after a test."""

    algorithm: Algorithm
    state: Record
    accuracy: Mapping[str, float]  # mode → mean over clients
    baseline: Baseline
    collapse: Collapse
    losses: Sequence[float]  # of all rounds

    @property
    def main(self) -> str:
        """The mode that the method's paper reports."""
        return next(
            (mode for mode in self.algorithm.modes if mode in self.accuracy), next(iter(self.accuracy))
        )


def judge_test(
    algorithm: Algorithm,
    state: Record,
    scores: Sequence[Score],
    accuracy: Mapping[str, Mapping[str, float]],
    losses: Sequence[float],
    classes: int,
) -> dict[str, Any]:
    """What a round's record says beside the accuracies: `baseline` and `findings`."""
    known = baseline(scores, classes)
    if known is None:
        return {}
    means = {mode: values["mean"] for mode, values in accuracy.items()}
    learning = Learning(algorithm, state, means, known, collapse(scores), losses)
    return {"baseline": asdict(known), "findings": [asdict(one) for one in find(learning)]}


def find(learning: Learning) -> list[Finding]:
    """All findings, the gravest first."""
    found = [_embeddings(learning), _prototypes(learning), _constant(learning), _majority(learning)]
    told = [Finding("method", text) for text in learning.algorithm.remarks(learning.state)]
    return [one for one in (*found, _loss(learning), *told, _few(learning)) if one is not None]


def read_findings(record: Mapping[str, Any]) -> list[Finding]:
    """Those of a round's record."""
    return [Finding(one["kind"], one["text"], tuple(one["modes"])) for one in record.get("findings") or ()]


class Aloud:
    """Warns of what is found while a run goes on: each kind once, and not while it may still be starting."""

    def __init__(self, method: str, planned: int):
        self.method = short_name(method)
        self.planned = planned
        self._said: set[str] = set()

    def say(self, record: Mapping[str, Any]) -> None:
        """Warn of what is new in a round's record."""
        round = record["round"]
        ended = round == self.planned or "ended" in record
        if not ended and round < max(EARLY, self.planned // 4):
            return
        for finding in read_findings(record):
            if finding.kind not in self._said and (ended or finding.kind not in AT_THE_END):
                self._said.add(finding.kind)
                log.warning("%s, round %d: %s", self.method, round, finding.text)


def baseline_text(known: Baseline | None, modes: Sequence[str]) -> str:
    """What accuracies in these modes are to be held against, in one line."""
    if known is None:
        return "majority class and chance: not known, the run is of an earlier version"
    text = f"majority class {known.majority:.1f} %, chance {known.chance:.1f} %"
    own = [mode for mode in modes if mode in AMONG_OWN]
    return text + (f" ({', '.join(own)}: {known.chance_own:.1f} %)" if own else "")


def _embeddings(learning: Learning) -> Finding | None:
    signs = learning.collapse
    if not signs.equal or signs.equal * 2 < signs.embedded:
        return None
    return Finding(
        "embeddings",
        f"at {signs.equal} of {signs.embedded} clients the embeddings of most samples are zero or equal: "
        "units have died, or an extra loss term holds them; lower lr or the weight of that term (lam), or "
        "take a model without ReLU before the embedding",
    )


def _prototypes(learning: Learning) -> Finding | None:
    import torch  # findings are read without

    from ..core.scoring import relative_spread

    found = learning.algorithm.prototypes(learning.state)
    if found is None or len(torch.unique(found[1])) < 2:
        return None
    rows = found[0]
    if not relative_spread(rows) < EQUAL:
        return None
    how = "exactly zero" if not rows.any() else "zero or equal"
    return Finding(
        "prototypes",
        f"all global prototypes are {how}: they tell no class from another; lower lr or the weight of the "
        "prototype term (lam), train longer (epochs), or give clients more samples",
        tuple(mode for mode in learning.accuracy if mode.startswith("gp_")),
    )


def _constant(learning: Learning) -> Finding | None:
    constant = learning.collapse.constant
    if not constant:
        return None
    modes = ", ".join(f"{mode} {100 * share:.0f} %" for mode, share in constant.items())
    return Finding(
        "constant",
        f"clients predict a single class for nearly all test samples ({modes}): the models do not tell "
        f"classes apart; {SLOW}",
        tuple(constant),
    )


def _majority(learning: Learning) -> Finding | None:
    mode, reached = learning.main, learning.accuracy[learning.main]
    if mode in learning.collapse.constant or reached >= learning.baseline.majority + ABOVE:
        return None
    return Finding(
        "majority",
        f"{mode} reaches {reached:.1f} %, no more than always naming each client's most frequent class "
        f"({learning.baseline.majority:.1f} %): {SLOW}; or the clients differ too much for what they share",
        (mode,),
    )


def _loss(learning: Learning) -> Finding | None:
    mode = "clf" if "clf" in learning.accuracy else learning.main
    learned = learning.accuracy[mode] >= learning.baseline.majority + LEARNED
    if learned or not still_as_high(learning.losses):
        return None
    known = [loss for loss in learning.losses if math.isfinite(loss)]
    return Finding(
        "loss",
        f"the training loss has not fallen ({known[0]:.3g} in the first round, {known[-1]:.3g} now): lr is "
        "too low, or so high that training diverges, or extra loss terms outweigh the cross-entropy",
    )


def _few(learning: Learning) -> Finding | None:
    share = learning.collapse.few
    if not learning.algorithm.weighs_alike or share < FEW_UPLOADS:
        return None
    return Finding(
        "few samples",
        f"{100 * share:.0f} % of the uploads rest on one or two samples, and the method weighs all alike; "
        "leave them out with min_count=3, or give clients more samples",
    )
