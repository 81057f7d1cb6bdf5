"""`protofed show RUN`: what a run reached, and what it cost."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from ..core.escape import visible
from ..runs.attacked import attack_lines
from ..runs.directory import RunDir
from ..runs.findings import baseline_text
from ..runs.modes import titled
from ..runs.outcome import Outcome
from .output import make_console

MOST_NAMES = 20  # of classes that are listed


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser("show", allow_abbrev=False)
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument(
        "--target",
        type=percent,
        metavar="PERCENT",
        help="also the first tested round with at least this accuracy, as a mean over clients and pooled",
    )
    parser.add_argument("--json", action="store_true", help="print the last record as JSON")
    parser.set_defaults(function=show)


def show(args: argparse.Namespace) -> int:
    """Print a run, or its settings and last record."""
    if args.json:
        run = Outcome.read(args.run)
        sys.stdout.write(
            json.dumps({"config": run.config, "last": run.lines[-1] if run.lines else None}) + "\n"
        )
    else:
        print_run(RunDir.open(args.run), args.target)
    return 0


def print_run(directory: RunDir, target: float | None = None) -> None:
    """A table of accuracies under their names, and lines about cost and state."""
    run, console = Outcome.read(directory.path), make_console()
    finished = run.finished  # a damaged run shows before anything is printed
    console.print(run.title, highlight=False)
    if run.tests:
        console.print(_accuracy_table(run))
        console.print(baseline_text(run.baseline, run.modes), highlight=False)
        if not math.isnan(run.balanced(run.modes[0])):
            console.print(
                "balanced: every client's model on the same test of all classes alike", highlight=False
            )
        for line in [*_before(run), *([] if target is None else _reached(run, target))]:
            console.print(line, highlight=False)
    for change in run.about.changes:
        said = f"warning: not one training: {change}; its rounds before and after it do not belong together"
        console.print(said, highlight=False, markup=False, style="yellow")
    for finding in run.findings:
        console.print(f"warning: {finding.text}", highlight=False, markup=False, style="yellow")
    if run.one_class and "gp_local" in run.modes:
        console.print(
            f"{run.one_class} of these clients train on a single class: there gp_local cannot be wrong",
            highlight=False,
        )
    if names := _named_classes(run.class_names):
        console.print(f"classes: {names}", highlight=False, markup=False, soft_wrap=True)
    for note in run.about.notes:
        console.print(f"data: {note}", highlight=False, soft_wrap=True)
    if run.lines:
        up, down = (run.total(way, "params") for way in ("up", "down"))
        console.print(
            f"sent up {up:,} and down {down:,} parameters ({4 * up:,} and {4 * down:,} bytes) "
            f"in {run.rounds} rounds, {run.seconds:.1f} s",
            highlight=False,
        )
    for line in attack_lines(run):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if run.privacy:
        console.print(run.privacy, highlight=False, markup=False, soft_wrap=True)
    if run.ended:
        said = f"ended after {run.rounds} of {run.planned_rounds} rounds: {run.ended}"
        console.print(said, highlight=False, markup=False, soft_wrap=True)
    if not finished:
        console.print(
            f"{run.rounds} of {run.planned_rounds} rounds done; continue with: protofed resume {run.path}",
            highlight=False,
        )
    console.print(f"run: {run.path}", highlight=False, soft_wrap=True)


def _before(run: Outcome) -> list[str]:
    """What the first weights reached, if that was tested."""
    known = [(mode, run.start(mode)) for mode in run.modes if not math.isnan(run.start(mode))]
    return [f"before training: {', '.join(f'{mode} {value:.2f}' for mode, value in known)}"] if known else []


def _reached(run: Outcome, target: float) -> list[str]:
    """The first round at a target, for each prediction, with the time and the bytes until then: by the mean
    over clients, and over all their test samples (pooled), which FedTGP's paper prints."""
    return [_reached_by(run, target, mode, stat) for mode in run.modes for stat in ("mean", "pooled")]


def _reached_by(run: Outcome, target: float, mode: str, stat: str) -> str:
    who = f"{mode} ({'mean over clients' if stat == 'mean' else stat})"
    if (round := run.reached(mode, target, stat)) is None:
        return f"{target:g} % not reached by {who} in {run.rounds} rounds"
    until = run.until(round)
    seconds, sent = f"{until.seconds:,.1f} s", f"{until.bytes:,} bytes"
    return f"{target:g} % reached by {who} in round {round}, after {seconds} and {sent}"


def percent(text: str) -> float:
    """An accuracy to be reached."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"expected a percentage, 0 to 100, got {text}")
    return value


def _named_classes(names: Sequence[str]) -> str:
    """Numbers and names of the classes; empty where the names are the numbers."""
    if list(names) == [str(number) for number in range(len(names))]:
        return ""
    shown = ", ".join(f"{number} {visible(name)}" for number, name in enumerate(names[:MOST_NAMES]))
    return shown + (f", … {len(names)} in all" if len(names) > MOST_NAMES else "")


def _accuracy_table(run: Outcome) -> Table:
    last = run.tests[-1]
    table = Table(title=f"accuracy over {last.clients} clients, round {last.round} (%)")
    table.add_column("prediction")
    others = {"balanced": run.balanced, "validation": run.validated}
    others = {name: of for name, of in others.items() if any(not math.isnan(of(m)) for m in last.scores)}
    for name in ("mean", "std", "worst client", "worst 10 %", "best mean (round)", *others):
        table.add_column(name, justify="right")
    for mode in last.scores:
        numbers = [_shown(run.last(mode, stat)) for stat in ("mean", "std", "worst", "worst10")]
        best, round = run.best(mode)
        more = [_shown(of(mode)) for of in others.values()]
        table.add_row(titled(mode), *numbers, f"{best:.2f} ({round})" if round else "", *more)
    return table


def _shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"
