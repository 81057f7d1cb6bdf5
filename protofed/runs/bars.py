"""Progress on the terminal or in a notebook: a bar of rounds with the accuracy of the last test."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.progress import TimeElapsedColumn as Elapsed
from rich.text import Text

from ..core.escape import visible
from .privacy_spent import spent_text
from .records import headline

if TYPE_CHECKING:
    from ..config import Config


class PlainConsole(Console):
    """Text is shown as it is: brackets are no markup, and nothing in it acts on the terminal."""

    def __init__(self, stderr: bool = False):
        super().__init__(stderr=stderr, markup=False, emoji=False)

    def render_str(self, text: str, **how: Any) -> Text:
        """All strings come through here, those in tables too."""
        return super().render_str(visible(text, lines=True), **{**how, "markup": False, "emoji": False})


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
        Elapsed(),
        *more,
        console=PlainConsole(stderr=True),
        disable=quiet,
    )


class RoundBar:
    """A bar that is called with each round's record."""

    def __init__(self, config: Config, quiet: bool, *more: ProgressColumn):
        self.modes = config.make_method().modes
        self.bar = round_bar(quiet, *more)
        self._task = self.bar.add_task(config.method, total=config.rounds.rounds, accuracy="")
        self.round = 0

    def __enter__(self) -> RoundBar:
        self.bar.start()
        return self

    def __call__(self, record: dict[str, Any]) -> None:
        """A round is over."""
        self.round = record["round"]
        accuracy = ", ".join(filter(None, (headline(record, self.modes), spent_text(record))))
        fields: dict[str, Any] = {"accuracy": accuracy} if accuracy else {}
        self.bar.update(self._task, completed=self.round, **fields)
        for client, reason in (record.get("failed") or {}).items():
            self.bar.console.print(f"round {self.round}: client {client} left out: {reason}", style="yellow")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()
