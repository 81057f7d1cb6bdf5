"""Progress of a study: a bar of rounds for the run at work, and a line for each run that ended."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from ..runs.bars import round_bar
from ..runs.records import headline
from .plan import Planned
from .runner import ELSEWHERE, FAILED, PAUSED, REFUSED, Done


class StudyProgress:
    """A bar of rounds for the run at work, and a line for each run that ended."""

    def __init__(self, quiet: bool, part: str = ""):
        self._quiet = quiet
        self._part = part
        self._bar = round_bar(quiet)
        self._task = self._bar.add_task("", total=None, accuracy="")
        self._modes: Sequence[str] = ()
        self._said: set[str] = set()

    def __enter__(self) -> StudyProgress:
        return self

    def found(self, done: Done) -> None:
        """Say which runs are taken from disk, and why others are not."""
        note = done.found.note if done.found else ""
        run = f"{done.planned.row}, seed {done.planned.seed}"
        if done.reused:
            self._say(f"{run}: reused {done.path}" + (f" ({note})" if note else ""))
        elif note:
            self._say(f"{run}: run anew: {note}", "yellow")

    def begin(self, number: int, total: int, planned: Planned) -> None:
        self._bar.start()  # not before: there may be nothing left to run
        self._modes = planned.config.make_method().modes
        text = f"{self._part}run {number} of {total}: {planned.row}, seed {planned.seed}"
        self._bar.reset(self._task, total=planned.config.rounds.rounds, description=text, accuracy="")

    def round(self, record: dict[str, Any]) -> None:
        accuracy = headline(record, self._modes)
        fields: dict[str, Any] = {"accuracy": accuracy} if accuracy else {}
        self._bar.update(self._task, completed=record["round"], **fields)

    def end(self, done: Done) -> None:
        styles = {PAUSED: "yellow", ELSEWHERE: "yellow", REFUSED: "yellow", FAILED: "red"}
        text = f"{done.planned.row}, seed {done.planned.seed}: {done.state}"
        reason = "for the same reason" if done.message in self._said else done.message
        self._said |= {done.message} - {""}
        self._say(f"{text}: {reason}" if reason else text, styles.get(done.state, ""))

    def _say(self, text: str, style: str = "") -> None:
        if not self._quiet:
            self._bar.console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if kind is KeyboardInterrupt:
            raise KeyboardInterrupt("finished runs are kept; give the same command to go on") from None
