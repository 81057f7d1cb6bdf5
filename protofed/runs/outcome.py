"""What a run reached, finished or as far as it came: the one reader of the records of rounds.

Accuracies are in percent. What was not measured is NaN here and null in files: it is never the best, and
means over rounds leave it out. The mIoU of segmentation is a further mode (see modes.py).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from ..core.errors import RunError
from ..metrics.collapse import Baseline
from .about import AboutRun, read_about
from .directory import RunDir
from .findings import Finding, read_findings
from .modes import AMONG_OWN, plain
from .privacy_spent import privacy_text
from .records import RoundRecord, Scores, in_order, number_in, scores_of

SMOOTHED = 0.1  # share of the rounds over which "smoothed" averages
WAYS = ("up", "down")
OTHER_TESTS = ("balanced", "validation")
log = logging.getLogger("protofed")


class Tested(NamedTuple):
    """The test of a round."""

    round: int
    scores: Scores
    clients: int  # that were tested


@dataclass(frozen=True)
class Outcome:
    """Numbers of one run, from the records of its rounds."""

    lines: Sequence[RoundRecord]
    config: dict[str, Any] = field(default_factory=dict)
    about: AboutRun = field(default_factory=AboutRun)
    directory: RunDir | None = None

    @classmethod
    def read(cls, path: Path) -> Outcome:
        """Of a run directory."""
        directory = RunDir.open(path)
        if directory.mark is None:
            log.warning("%s: an earlier version made it, without checksums; it cannot be verified", path)
        config = directory.config
        return cls(directory.lines("metrics.jsonl"), config, read_about(path, config), directory)

    def until(self, round: int) -> Outcome:
        """The run as it stood after a round."""
        return replace(self, lines=[line for line in self.lines if line["round"] <= round])

    # the run

    @property
    def path(self) -> Path:
        """The run directory."""
        if self.directory is None:
            raise RunError("this run has no directory")
        return self.directory.path

    @property
    def title(self) -> str:
        """The settings that tell runs apart, in one line."""
        config = self.config
        return (
            f"{config['method']} ({config['preset']}) on {config['data']}, {config['partition']}, "
            f"{config['models']}, seed {config['seed']}"
        )

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        return self.directory is not None and self.directory.summary is not None

    @property
    def ended(self) -> str:
        """Why the run came to its end before its last round; empty if it did not."""
        return str(self.lines[-1].get("ended", "")) if self.lines else ""

    @property
    def privacy(self) -> str:
        """What differential privacy it has spent, at which level, in a line; empty without."""
        return privacy_text(self.lines[-1]) if self.lines else ""

    @property
    def seed(self) -> int:
        """The run's seed."""
        return int(self.config["seed"])

    @property
    def rounds(self) -> int:
        """Rounds done."""
        return int(self.lines[-1]["round"]) if self.lines else 0

    @property
    def planned_rounds(self) -> int:
        """Rounds that the configuration asks for."""
        return int(self.config["rounds"]["rounds"])

    @property
    def class_names(self) -> tuple[str, ...]:
        """Empty for a run of an earlier version."""
        return self.about.classes

    @property
    def one_class(self) -> int | None:
        """Tested clients that train on a single class, where that makes a prediction trivial; a run of an
        earlier version has it in its summary."""
        if self.about.one_class is not None or self.directory is None:
            return self.about.one_class
        return (self.directory.summary or {}).get("one_class")

    def column(self, *keys: str, missing: float = math.nan) -> list[float]:
        """One number of every round: column("train_loss"), column("up", "bytes")."""
        return [number_in(line, keys, missing) for line in self.lines]

    # accuracy

    @cached_property
    def tests(self) -> list[Tested]:
        """The rounds that were tested."""
        found = [(line, scores_of(line)) for line in self.lines]
        return [Tested(line["round"], one, line.get("tested_clients", 0)) for line, one in found if one]

    @cached_property
    def modes(self) -> list[str]:
        """The prediction modes of the last test, the one that the method's paper reports first."""
        return in_order(self.tests[-1].scores if self.tests else {}, self.about.modes)

    @property
    def main(self) -> str | None:
        """The mode that the method's paper reports; None without a test."""
        return self.modes[0] if self.modes else None

    @property
    def baseline(self) -> Baseline | None:
        """What majority class and chance reach, in the last test; None in a run of an earlier version."""
        found = self._last_test.get("baseline")
        return Baseline(**found) if found else None

    @property
    def majority(self) -> float:
        """What always naming each client's most frequent class reaches; NaN if not known."""
        return self.baseline.majority if self.baseline else math.nan

    def chance(self, mode: str) -> float:
        """What drawing a class reaches, among those that the mode chooses from; NaN if not known."""
        if self.baseline is None:
            return math.nan
        return self.baseline.chance_own if plain(mode) in AMONG_OWN else self.baseline.chance

    def balanced(self, mode: str) -> float:
        """Mean accuracy of the clients' models on a test of all classes alike; NaN if there was none."""
        return self._other_test("balanced", mode)

    def validated(self, mode: str) -> float:
        """Mean accuracy on the samples that clients hold out of training, in the last test; NaN without."""
        return self._other_test("validation", mode)

    def _other_test(self, on: str, mode: str) -> float:
        return number_in(self._last_test, [on, mode, "mean"])

    @property
    def findings(self) -> list[Finding]:
        """What must be known before the last test's accuracies are believed."""
        return read_findings(self._last_test)

    @property
    def _last_test(self) -> RoundRecord:
        return next((line for line in reversed(self.lines) if line.get("acc")), {})

    def last(self, mode: str, stat: str = "mean") -> float:
        """The value in the last test."""
        return _value(self.tests[-1], mode, stat) if self.tests else math.nan

    def best(self, mode: str, stat: str = "mean") -> tuple[float, int | None]:
        """The highest value and its round (the first, if several)."""
        values = self._measured(mode, stat)
        value, minus = max(((v, -round) for round, v in values.items()), default=(math.nan, None))
        return value, None if minus is None else -minus

    def at(self, round: int | None, mode: str, stat: str = "mean") -> float:
        """The value in the test of a round."""
        return math.nan if round is None else self._measured(mode, stat).get(round, math.nan)

    def curve(self, mode: str, stat: str = "mean") -> list[float]:
        """The values of all tests."""
        return [_value(test, mode, stat) for test in self.tests]

    def smoothed(self, mode: str, stat: str = "mean") -> float:
        """Mean over the tests of the last rounds: a tenth of all that are planned."""
        return _mean([v for round, v in self._measured(mode, stat).items() if round > self._tail])

    def smoothed_line(self, name: str) -> float:
        """The same of a number that stands in the rounds' records, such as train_loss."""
        pairs = zip(self.lines, self.column(name))
        return _mean([v for line, v in pairs if line["round"] > self._tail and not math.isnan(v)])

    @property
    def last_loss(self) -> float:
        """Training loss of the last round."""
        return self.column("train_loss")[-1] if self.lines else math.nan

    @property
    def _tail(self) -> float:
        return self.rounds - max(1, round(SMOOTHED * self.planned_rounds))

    def converged(self, mode: str) -> int | None:
        """The round from which the moving average over five tests stays near its maximum."""
        from ..metrics.formulas import rounds_to_converge

        values = self._measured(mode, "mean")
        found = rounds_to_converge(list(values.values()))
        return list(values)[found - 1] if found else None

    def start(self, mode: str, stat: str = "mean") -> float:
        """The value before the first round; NaN if there was no test (`eval_start`)."""
        return number_in(self.lines[0] if self.lines else {}, ["start", mode, stat])

    def reached(self, mode: str, target: float, stat: str = "mean") -> int | None:
        """The first tested round with at least this value; None if there is none."""
        return next((round for round, v in self._measured(mode, stat).items() if v >= target), None)

    def _measured(self, mode: str, stat: str) -> dict[int, float]:
        """Round → value, of the tests that have one."""
        values = {test.round: _value(test, mode, stat) for test in self.tests}
        return {round: value for round, value in values.items() if not math.isnan(value)}

    # clients

    def client_test(self, round: int | None = None) -> RoundRecord | None:
        """The line of clients.jsonl of the last test, or of that of a round."""
        lines = self.directory.lines("clients.jsonl") if self.directory else []
        chosen = [one for one in lines if one["round"] <= self.rounds and round in (None, one["round"])]
        return chosen[-1] if chosen else None

    def clients(self, mode: str, round: int | None = None) -> dict[int, float]:
        """Accuracy of each tested client, in the last test or that of a round."""
        line = self.client_test(round)
        if line is None or mode not in line["acc"]:
            return {}
        pairs = zip(line["clients"], line["acc"][mode])
        return {int(client): float(value) for client, value in pairs if value is not None}

    def released_spread(self, mode: str, round: int | None = None) -> float:
        """The spread over clients as FedProto's released evaluation prints it; NaN without counts of test
        samples (a run of an earlier version) or without a classifier."""
        line = self.client_test(round) or {}
        acc, n = line.get("acc", {}), line.get("n")
        if n is None or "clf" not in acc or mode not in acc or not all(n):
            return math.nan
        from ..metrics.released import running_accuracies, spread

        clf, other = ([a * m / 100 for a, m in zip(acc[name], n)] for name in ("clf", mode))
        return spread(running_accuracies(n, clf, None if mode == "clf" else other))

    def participants(self, round: int) -> list[int] | None:
        """Clients whose uploads were used in a round; None if the round did not keep them: it had more
        than a record names, or an earlier version played it."""
        line = next((one for one in self.lines if one["round"] == round), {})
        return line.get("participants")

    @property
    def averages(self) -> dict[int, RoundRecord]:
        """Round → clients and their weights in the average, where the method tells them."""
        told = {line["round"]: line.get("average") or {} for line in self.lines}
        return {round: average for round, average in told.items() if average.get("weights")}

    @property
    def failures(self) -> dict[int, dict[str, str]]:
        """Round → client → reason, of the rounds in which some client failed."""
        return {line["round"]: line["failed"] for line in self.lines if line.get("failed")}

    # cost

    def total(self, *keys: str) -> float:
        """Sum of a number over all rounds: total("up", "params")."""
        return sum(self.column(*keys, missing=0))

    def per_round(self, way: str) -> float:
        """Parameters that went "up" or "down" in a round, on average."""
        return _mean(self.column(way, "params", missing=0))

    @property
    def local_steps(self) -> float:
        """Steps of a client in a round, on average; NaN for a run of an earlier version."""
        pairs = list(zip(self.column("steps"), self.column("clients", missing=0)))
        clients = sum(count for _, count in pairs)
        return math.fsum(steps for steps, _ in pairs) / clients if clients else math.nan

    @property
    def bytes(self) -> int:
        """Bytes of parameters in both directions, in all rounds."""
        return int(sum(self.total(way, "bytes") for way in WAYS))

    @property
    def bytes_until(self) -> dict[int, int]:
        """Round → bytes in both directions up to and with it."""
        both = zip(*(self.column(way, "bytes", missing=0) for way in WAYS))
        return dict(zip((line["round"] for line in self.lines), accumulate(int(sum(pair)) for pair in both)))

    @property
    def seconds(self) -> float:
        """Time of all rounds, with their tests."""
        return float(self.total("seconds") + self.total("eval_seconds"))

    def summary(self) -> dict[str, Any]:
        """What summary.json says of a finished run."""
        if not self.lines:
            raise RunError(f"{self.path} has no metrics")
        best = {mode: self.best(mode) for mode in self.modes}
        return {
            "method": self.config["method"],
            "rounds": self.rounds,
            "main_mode": self.main,
            "last": self.tests[-1].scores if self.tests else {},
            "best": {mode: {"mean": value, "round": round} for mode, (value, round) in best.items()},
            **{f"{way}_{kind}": self.total(way, kind) for kind in ("params", "bytes") for way in WAYS},
            "seconds": self.seconds,
            "baseline": self._last_test.get("baseline"),
            **{on: self._last_test[on] for on in OTHER_TESTS if on in self._last_test},
            "findings": [finding.text for finding in self.findings],
            "groups": list(self.about.groups),
            "one_class": self.one_class,
            **{
                key: self.lines[-1][key]
                for key in ("epsilon", "privacy", "ended", "attack")
                if key in self.lines[-1]
            },
        }


def _value(test: Tested, mode: str, stat: str) -> float:
    return test.scores.get(mode, {}).get(stat, math.nan)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
