"""What `protofed.run` and `protofed.federate` give back."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from .config import Config
from .core.errors import ConfigError
from .core.record import Record
from .runs.about import AboutRun
from .runs.frames import frame_of, round_rows
from .runs.modes import titled
from .runs.notebook import chart, table
from .runs.outcome import Outcome

STATS = ("mean", "std", "worst")


@dataclass(repr=False)
class Result:
    """What a run gave. `metrics` has one record a round; `models` the trained modules of `federate`, one for
    each client, in their order; `per_client` the last test, client by client (see `clients`).
    `engine_reason` says why `auto` chose its engine."""

    metrics: list[dict[str, Any]]
    config: Config
    state: Record
    path: Path | None = None
    models: list[nn.Module] = field(default_factory=list)
    engine_reason: str = ""
    per_client: dict[str, Any] = field(default_factory=dict)

    @property
    def engine(self) -> str:
        """The engine that ran the clients."""
        return self.config.system.engine

    @cached_property
    def outcome(self) -> Outcome:
        """The reader of its records."""
        return Outcome(self.metrics, self.config.to_dict(), AboutRun(self.config.make_method().modes))

    @property
    def modes(self) -> tuple[str, ...]:
        """Prediction modes of the last test, the one that the method's paper reports first."""
        return tuple(self.outcome.modes)

    def accuracy(self, mode: str | None = None) -> float:
        """Mean test accuracy over clients in the last round, in percent, under a prediction mode.

        Without a mode: the one that the method's paper reports.
        """
        return self.outcome.last(self._mode(mode))

    def clients(self, mode: str | None = None) -> dict[int, float]:
        """Client → its test accuracy in the last round, in percent; clients without test samples are left
        out."""
        mode = self._mode(mode)
        pairs = zip(self.per_client.get("clients", ()), self.per_client.get("acc", {}).get(mode, ()))
        return {int(client): float(value) for client, value in pairs if value is not None}

    def to_frame(self) -> Any:
        """A pandas DataFrame, a row for each round: loss, cost, accuracies by mode in percent."""
        return frame_of(round_rows(self.metrics))

    def __repr__(self) -> str:
        lines = [self._title()]
        lines += [f"  {titled(mode)}: {self._line(mode)} %" for mode in self.modes]
        if self.path is not None:
            lines.append(f"  run: {self.path}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [[titled(mode), *self._cells(mode)] for mode in self.modes]
        shown = table(("accuracy (%)", "mean", "over clients", "worst"), rows, self._title())
        tests = self.outcome.tests
        rounds = [test.round for test in tests]
        curves = {mode: list(zip(rounds, self.outcome.curve(mode))) for mode in self.modes}
        return shown + chart(curves)

    def _title(self) -> str:
        known = len(self.per_client.get("clients", ())) or self.config.clients
        return f"{self.config.method} after {self.outcome.rounds} rounds, {known} clients"

    def _line(self, mode: str) -> str:
        """What is known: mIoU has no spread over clients."""
        mean, std, worst = self._cells(mode)
        return mean + (f" {std}" if std else "") + (f" (worst {worst})" if worst else "")

    def _cells(self, mode: str) -> list[str]:
        forms = zip(STATS, ("{:.2f}", "± {:.2f}", "{:.2f}"))
        values = [(self.outcome.last(mode, stat), form) for stat, form in forms]
        return ["" if math.isnan(value) else form.format(value) for value, form in values]

    def _mode(self, mode: str | None) -> str:
        mode = mode or self.outcome.main
        if mode is None or not self.modes:
            raise ConfigError("no accuracy: no client has test samples")
        if mode not in self.modes:
            raise ConfigError(f"no accuracy named {mode!r}; this run has {', '.join(self.modes)}")
        return mode


class Results(Sequence[Result]):
    """The runs of several seeds."""

    def __init__(self, runs: Sequence[Result]):
        self.runs = list(runs)

    def __getitem__(self, number: Any) -> Any:
        return self.runs[number]

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def seeds(self) -> list[int]:
        """Of the runs, in their order."""
        return [run.config.seed for run in self.runs]

    def accuracy(self, mode: str | None = None) -> float:
        """The mean over seeds of the mean over clients, in percent."""
        return statistics.fmean(run.accuracy(mode) for run in self.runs)

    def spread(self, mode: str | None = None) -> float:
        """The standard deviation over seeds (ddof 1); NaN with one seed."""
        values = [run.accuracy(mode) for run in self.runs]
        return statistics.stdev(values) if len(values) > 1 else math.nan

    def to_frame(self) -> Any:
        """The rounds of all seeds in one DataFrame, with a column seed."""
        rows = [{"seed": r.config.seed, **row} for r in self.runs for row in round_rows(r.metrics)]
        return frame_of(rows)

    def __repr__(self) -> str:
        lines = [f"  {titled(m)}: {mean} ± {spread} %" for m, mean, spread in self._rows()]
        return "\n".join([self._title(), *lines])

    def _repr_html_(self) -> str:
        rows = [[titled(mode), mean, f"±{spread}"] for mode, mean, spread in self._rows()]
        return table(("accuracy (%)", "mean", "over seeds"), rows, self._title()) + chart(self._curves())

    def _rows(self) -> list[tuple[str, str, str]]:
        return [(m, f"{self.accuracy(m):.2f}", f"{self.spread(m):.2f}") for m in self.runs[0].modes]

    def _curves(self) -> dict[str, list[tuple[float, float]]]:
        outcomes = [(run.config.seed, run.outcome) for run in self.runs]
        return {
            f"seed {seed}": [(test.round, test.scores[run.main]["mean"]) for test in run.tests if run.main]
            for seed, run in outcomes
        }

    def _title(self) -> str:
        seeds = ", ".join(map(str, self.seeds))
        return f"{self.runs[0].config.method}, {len(self)} seeds ({seeds})"
