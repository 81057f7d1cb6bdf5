"""A progress bar with the accuracy of the last test and the time left."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ..config import Config
from ..core.escape import visible
from ..runs.records import headline
from . import stop
from .output import PlainConsole


class PlainColumn(TextColumn):
    """Text beside a bar, shown as it is: see `PlainConsole`."""

    def render(self, task: Task) -> Text:
        """One line."""
        return Text(visible(self.text_format.format(task=task)))


def round_bar(quiet: bool, *more: ProgressColumn) -> Progress:
    """A bar of rounds with what was reached and how long it took."""
    return Progress(
        PlainColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        PlainColumn("{task.fields[accuracy]}"),
        TimeElapsedColumn(),
        *more,
        console=PlainConsole(stderr=True),
        disable=quiet,
    )


class RoundProgress:
    """Called with each round's record. An interruption says how to go on."""

    def __init__(self, config: Config, out: Path, quiet: bool):
        self.out = out
        self.modes = config.make_method().modes
        self._bar = round_bar(quiet, TextColumn("left"), TimeRemainingColumn())
        self._task = self._bar.add_task(config.method, total=config.rounds.rounds, accuracy="")
        self.round = 0
        self.every = config.system.checkpoint_every

    def __enter__(self) -> RoundProgress:
        self._bar.start()
        return self

    def __call__(self, record: dict[str, Any]) -> None:
        self.round = record["round"]
        stop.check()
        accuracy = headline(record, self.modes)
        fields: dict[str, Any] = {"accuracy": accuracy} if accuracy else {}
        self._bar.update(self._task, completed=self.round, **fields)
        if record.get("failed"):
            for client, reason in record["failed"].items():
                self._bar.console.print(
                    f"round {self.round}: client {client} left out: {reason}", style="yellow"
                )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if kind is KeyboardInterrupt:
            where = f"after round {self.round}" if self.round else "before the first round ended"
            saved = self.round - self.round % self.every
            if saved != self.round:
                where += f", saved up to round {saved}"
            raise KeyboardInterrupt(f"{where}; continue with: protofed resume {self.out}") from None
