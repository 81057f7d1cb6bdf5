"""`protofed report RUN…`: one page about runs, and single figures for papers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from ..reports.collect import POINTS, collect
from ..reports.figures import SUFFIXES, write_figures
from ..reports.html import write_page
from .output import tell


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "report",
        description="Writes one HTML file that opens offline: accuracy against rounds and bytes, clients, "
        "data, embeddings, prototypes, cost and settings. Several runs are laid over each other; runs "
        "that differ in the seed alone are one row, mean and spread over seeds. A folder of `compare` or "
        "`sweep` stands for all its runs.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "runs",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="run directories, or the folder (or JSON file) of a study, as runs/compare",
    )
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("report.html"), help="the page (default: report.html)"
    )
    for suffix in SUFFIXES:
        parser.add_argument(
            f"--{suffix}",
            action="store_true",
            help=f"also single figures as {suffix.upper()}, in OUT-figures/",
        )
    parser.add_argument(
        "--points", type=int, default=POINTS, metavar="N", help=f"test samples in a t-SNE (default: {POINTS})"
    )
    parser.add_argument(
        "--light", action="store_true", help="only what the files of the runs hold: no data, no models"
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing")
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Write the page, and single figures if asked for."""
    if args.points < 0:
        raise ConfigError(f"--points: must not be negative, got {args.points}")
    if not args.out.parent.is_dir():
        raise ConfigError(f"--out: {args.out.parent} is not a folder")
    suffixes = [suffix for suffix in SUFFIXES if getattr(args, suffix)]
    say = (lambda text: None) if args.quiet else _say
    report = collect(args.runs, args.points, not args.light, say)
    written = [write_page(report, args.out)]
    if suffixes:
        written += write_figures(report, args.out.with_name(f"{args.out.stem}-figures"), suffixes)
    for note in report["notes"]:
        say(note)
    for run in report["runs"]:
        for note in run["notes"]:
            say(f"{run['name']}: {note}")
    say("written: " + ", ".join(str(path) for path in written))
    return 0


def _say(text: str) -> None:
    tell(text)
