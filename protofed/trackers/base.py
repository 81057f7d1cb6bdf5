"""What a tracker is told, and a run's records as flat numbers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import Any

from ..core.errors import ConfigError, RunError
from ..runs.directory import RunDir
from ..runs.outcome import Outcome
from ..runs.records import RoundRecord


class Tracker(ABC):
    """One place where numbers go. `target` is what stood after the colon, or empty."""

    kind = ""
    needs: tuple[str, str] | None = None  # module, and the extra that installs it

    def __init__(self, target: str = ""):
        self.target = target

    def __str__(self) -> str:
        return f"{self.kind}:{self.target}" if self.target else self.kind

    def check(self) -> None:
        """Raise if the tracker cannot work here."""
        if self.needs and find_spec(self.needs[0]) is None:
            module, extra = self.needs
            raise ConfigError(f"tracker {self.kind} needs {module}: pip install 'protofed[{extra}]'")

    @abstractmethod
    def begin(self, run: RunDir) -> None:
        """A run starts, or goes on."""

    @abstractmethod
    def round(self, record: RoundRecord) -> None:
        """A round was played."""

    @abstractmethod
    def end(self, run: RunDir, finished: bool) -> None:
        """The run is finished, or was interrupted."""


class Tracking:
    """Several trackers around a run: `with Tracking(…) as follow: carry_out(…, follow)`.

    A tracker that cannot begin is an error before the first round. One that fails later must not cost the
    run: with `warn`, it is dropped and the user told how to hand the run over afterwards.
    """

    def __init__(
        self,
        trackers: Sequence[Tracker],
        run: RunDir,
        then: Callable[[RoundRecord], None] | None = None,
        warn: Callable[[str], None] | None = None,
    ):
        self.trackers = list(trackers)
        self.run = run
        self.then = then
        self.warn = warn

    def __enter__(self) -> Tracking:
        for tracker in self.trackers:
            try:
                tracker.begin(self.run)
            except Exception as error:
                raise _failed(tracker, error) from error
        return self

    def __call__(self, record: RoundRecord) -> None:
        self._tell(lambda tracker: tracker.round(record))
        if self.then:
            self.then(record)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        finished = kind is None and self.run.summary is not None  # an unfinished run can be handed over
        self._tell(lambda tracker: tracker.end(self.run, finished))

    def _tell(self, what: Callable[[Tracker], None]) -> None:
        for tracker in list(self.trackers):
            try:
                what(tracker)
            except Exception as error:
                self.trackers.remove(tracker)
                if self.warn is None:
                    raise _failed(tracker, error) from error
                self.warn(
                    f"{_failed(tracker, error)}; the run goes on without it "
                    f"(later: `protofed track {self.run.path} --to {tracker}`)"
                )


def _failed(tracker: Tracker, error: Exception) -> RunError:
    """One line, whatever a library put into its message."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return RunError(f"tracker {tracker}: {lines[0]}")


def export(tracker: Tracker, run: RunDir) -> int:
    """Hand over a run that is on disk; the number of its rounds."""
    records = Outcome.read(run.path).lines
    with Tracking([tracker], run) as follow:
        for record in records:
            follow(record)
    return len(records)


def numbers(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """All numbers of a record by path; what is missing (null, NaN) is left out.

    >>> numbers({"round": 2, "acc": {"clf": {"mean": 50.0}}, "test_loss": None, "train_loss": float("nan")})
    {'round': 2, 'acc/clf/mean': 50.0}
    """
    found: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            found |= numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found[f"{prefix}{key}"] = value
    return found


def texts(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """All settings by path, as text.

    >>> texts({"seed": 0, "train": {"lr": 0.1}})
    {'seed': '0', 'train.lr': '0.1'}
    """
    found: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found |= texts(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = str(value)
    return found
