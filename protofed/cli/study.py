"""What the commands that carry out several runs have in common: flags, progress, printing."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..runs.files import finite
from ..studies.plan import Planned
from ..studies.runner import FAILED, FINISHED, REFUSED, Done, carry_out, read_budget
from ..studies.study_progress import StudyProgress
from ..studies.tables import FORMATS, Table, as_csv
from .output import make_console, tell

PASSING = ("--out", "--publish", "--budget")  # flags that decide where files go, and how far one call gets


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
    parser.add_argument(
        "--json", action="store_const", const="json", dest="format", help="the same as --format json"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress; the table is still printed")


def given_command() -> str:
    """As it was given, without what changes nothing that is printed once all runs are finished."""
    words, kept = iter(sys.argv[1:]), []
    for word in words:
        if word in PASSING:
            next(words, None)
        elif word.partition("=")[0] not in PASSING:
            kept.append(word)
    return "protofed " + shlex.join(kept)


def carry_out_plan(
    plan: Sequence[Planned], out: Path, args: argparse.Namespace, part: str = ""
) -> dict[str, Done]:
    """Carry the plan out under a progress bar; `part` says of which part of a longer study."""
    budget = None if args.budget is None else read_budget(args.budget)
    with StudyProgress(args.quiet, part) as progress:
        return carry_out(plan, out / "runs", budget, progress)


def print_tables(tables: Sequence[Table], records: Sequence[dict[str, Any]], form: str) -> None:
    """The tables in the form asked for. CSV and JSON have the records, with all numbers."""
    if form == "csv":
        sys.stdout.write(as_csv(records))
    elif form == "json":
        sys.stdout.write(json.dumps(finite(list(records)), indent=2) + "\n")
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
