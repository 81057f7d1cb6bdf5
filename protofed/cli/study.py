"""What the commands that carry out several runs have in common: flags, progress, printing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ..runs.records import headline
from ..studies.plan import Planned
from ..studies.runner import FAILED, FINISHED, PAUSED, REFUSED, Done, carry_out, read_budget
from ..studies.tables import FORMATS, Table, as_csv
from .output import make_console, tell
from .progress import round_bar


def add_study_flags(parser: argparse.ArgumentParser, seeds: int | None, out: str) -> None:
    """Seeds, directory, budget and output."""
    default = "as the recipe says" if seeds is None else str(seeds)
    parser.add_argument(
        "--seeds",
        type=int,
        default=seeds,
        metavar="N",
        help=f"runs of each, from --seed on (default: {default})",
    )
    parser.add_argument("--out", type=Path, help=f"directory of runs and tables (default: {out})")
    parser.add_argument(
        "--budget",
        metavar="TIME",
        help="stop after 20m, 90s or 1h30m, at the end of a round; call again to go on",
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="terminal", help="what is printed (default: terminal)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress; the table is still printed")


def carry_out_plan(
    plan: Sequence[Planned], out: Path, args: argparse.Namespace, part: str = ""
) -> dict[str, Done]:
    """Carry the plan out under a progress bar; `part` says of which part of a longer study."""
    budget = None if args.budget is None else read_budget(args.budget)
    with StudyProgress(args.quiet, part) as progress:
        return carry_out(plan, out / "runs", budget, progress)


def print_tables(tables: Sequence[Table], records: Sequence[dict[str, Any]], form: str) -> None:
    """The tables in the form asked for. CSV has the records, with all numbers."""
    if form == "csv":
        sys.stdout.write(as_csv(records))
    elif form != "terminal":
        texts = (table.markdown() if form == "markdown" else table.latex() for table in tables)
        sys.stdout.write("\n".join(texts))
    else:
        console = make_console()
        for table in tables:
            console.print(table.terminal())
            for note in table.notes:
                console.print(note, highlight=False, markup=False)


def say_written(paths: Sequence[Path], done: dict[str, Done], args: argparse.Namespace) -> None:
    """Where the files are, and whether something is left to do."""
    if args.quiet:
        return
    tell("written: " + ", ".join(str(path) for path in paths))
    left = sum(one.state not in (FINISHED, REFUSED, FAILED) for one in done.values())
    if left:
        tell(f"{left} of {len(done)} runs are not finished: give the same command to go on")


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
        styles = {PAUSED: "yellow", REFUSED: "yellow", FAILED: "red"}
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
