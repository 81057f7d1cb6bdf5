"""Progress bars with the time left: of a run, with the accuracy of its last test, and of an analysis."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from rich.progress import TextColumn, TimeRemainingColumn

from ..analysis.watch import Watch
from ..config import Config
from ..runs.bars import RoundBar, round_bar
from . import stop


class RoundProgress(RoundBar):
    """Called with each round's record. An interruption says how to go on."""

    def __init__(self, config: Config, out: Path, quiet: bool):
        super().__init__(config, quiet, TextColumn("left"), TimeRemainingColumn())
        self.out = out
        self.every = config.system.checkpoint_every

    def __call__(self, record: dict[str, Any]) -> None:
        self.round = record["round"]
        stop.check()
        super().__call__(record)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if kind is KeyboardInterrupt:
            where = f"after round {self.round}" if self.round else "before the first round ended"
            saved = self.round - self.round % self.every
            if saved != self.round:
                where += f", saved up to round {saved}"
            raise KeyboardInterrupt(f"{where}; continue with: protofed resume {self.out}") from None


class PartProgress(Watch):
    """A bar for the part of an analysis that is at work."""

    def __init__(self, quiet: bool):
        self._bar = round_bar(quiet, TextColumn("left"), TimeRemainingColumn())
        self._task = self._bar.add_task("", total=None, accuracy="")

    def __enter__(self) -> PartProgress:
        return self

    def begin(self, what: str, total: int) -> None:
        """Another part, from nothing."""
        self._bar.reset(self._task, total=total, description=what)
        self._bar.start()  # not before: what is refused has no bar

    def step(self, count: int = 1) -> None:
        """Steps that are done."""
        stop.check()
        self._bar.advance(self._task, count)

    def __exit__(self, *error: object) -> None:
        if self._bar.live.is_started:  # else rich would end a line that was never begun
            self._bar.stop()
