"""What a run reached, read from its directory: finished, or as far as it came."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..config import resolve
from ..metrics.analysis import rounds_to_converge
from ..runs.directory import RunDir

SMOOTHED = 0.1  # share of the rounds over which "smoothed" averages


@dataclass(frozen=True)
class Outcome:
    """Numbers of one run. Accuracies are in percent; what was not measured is NaN.

    With `until`, as they stood after that round.
    """

    path: Path
    until: int | None = None

    @cached_property
    def _directory(self) -> RunDir:
        return RunDir.open(self.path)

    @cached_property
    def config(self) -> dict[str, Any]:
        return self._directory.config

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        return [line for line in self._directory.lines("metrics.jsonl") if self._counts(line)]

    def _counts(self, line: dict[str, Any]) -> bool:
        return self.until is None or line["round"] <= self.until

    @cached_property
    def tests(self) -> list[dict[str, Any]]:
        """The rounds that were tested. Segmentation has its mIoU as further modes."""
        return [{**line, "acc": _scores(line)} for line in self.lines if line.get("acc")]

    @cached_property
    def modes(self) -> list[str]:
        """Names of the prediction modes, the one that the method's paper reports first."""
        if not self.tests:
            return []
        found = list(self.tests[-1]["acc"])
        ordered = resolve(self.config).make_method().modes
        return sorted(found, key=lambda mode: ordered.index(mode) if mode in ordered else len(ordered))

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def rounds(self) -> int:
        """Rounds done."""
        return int(self.lines[-1]["round"]) if self.lines else 0

    @property
    def planned_rounds(self) -> int:
        return int(self.config["rounds"]["rounds"])

    # accuracy

    def last(self, mode: str, stat: str = "mean") -> float:
        return self._value(self.tests[-1], mode, stat) if self.tests else math.nan

    def best(self, mode: str, stat: str = "mean") -> tuple[float, int]:
        """The highest value and its round (the first, if several)."""
        values = [(self._value(test, mode, stat), -test["round"]) for test in self.tests]
        value, minus = max((v for v in values if not math.isnan(v[0])), default=(math.nan, 0))
        return value, -minus

    def at(self, round: int, mode: str, stat: str = "mean") -> float:
        """The value in the test of a round."""
        return next(
            (self._value(test, mode, stat) for test in self.tests if test["round"] == round), math.nan
        )

    def smoothed(self, mode: str, stat: str = "mean") -> float:
        """Mean over the tests of the last rounds: a tenth of all that are planned."""
        return _mean([self._value(test, mode, stat) for test in self.tests if test["round"] > self._tail])

    def smoothed_line(self, name: str) -> float:
        """The same of a number that stands in the rounds' records, such as train_loss."""
        values = [line.get(name) for line in self.lines if line["round"] > self._tail]
        return _mean([v for v in values if v is not None])

    @property
    def last_loss(self) -> float:
        """Training loss of the last round."""
        value = self.lines[-1]["train_loss"] if self.lines else None
        return math.nan if value is None else float(value)

    @property
    def _tail(self) -> float:
        return self.rounds - max(1, round(SMOOTHED * self.planned_rounds))

    def converged(self, mode: str) -> int | None:
        """The round from which the moving average over five tests stays near its maximum."""
        values = [self._value(test, mode, "mean") for test in self.tests]
        found = rounds_to_converge(values)
        return int(self.tests[found - 1]["round"]) if found else None

    def clients(self, mode: str, round: int | None = None) -> dict[int, float]:
        """Accuracy of each tested client, in the last test or that of a round."""
        lines = [line for line in self._directory.lines("clients.jsonl") if self._counts(line)]
        chosen = [line for line in lines if round is None or line["round"] == round]
        if not chosen or mode not in chosen[-1]["acc"]:
            return {}
        pairs = zip(chosen[-1]["clients"], chosen[-1]["acc"][mode])
        return {int(client): float(value) for client, value in pairs if value is not None}

    def _value(self, test: dict[str, Any], mode: str, stat: str) -> float:
        value = test["acc"].get(mode, {}).get(stat)
        return math.nan if value is None else float(value)

    # cost

    def per_round(self, way: str) -> float:
        """Parameters that went "up" or "down" in a round, on average."""
        return _mean([line[way]["params"] for line in self.lines])

    @property
    def bytes(self) -> int:
        """Bytes of parameters in both directions, in all rounds."""
        return sum(line[way]["bytes"] for line in self.lines for way in ("up", "down"))

    @property
    def seconds(self) -> float:
        return float(sum(line["seconds"] + (line.get("eval_seconds") or 0.0) for line in self.lines))


def _scores(line: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Accuracies by mode, and mIoU by mode under the name "mIoU clf"."""
    dense = {f"mIoU {mode}": {"mean": value, "pooled": value} for mode, value in line.get("miou", {}).items()}
    return {**line["acc"], **dense}


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
