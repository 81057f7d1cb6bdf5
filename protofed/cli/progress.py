"""A progress bar with the accuracy of the last test and the time left."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from rich.progress import TextColumn, TimeRemainingColumn

from ..config import Config
from ..runs.bars import RoundBar
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
