"""`protofed track RUN… --to KIND`: the numbers of runs as CSV, Parquet, TensorBoard or MLflow."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from ..runs.directory import RunDir
from ..trackers import KINDS, open_tracker
from ..trackers.base import export
from .output import tell


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "track",
        description="Hand over runs that are on disk, finished or not. `protofed run --track KIND` does the "
        "same while a run is played.",
        allow_abbrev=False,
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument(
        "--to", required=True, metavar="KIND[:TARGET]", help=f"{', '.join(KINDS)}; with a file, folder or URI"
    )
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Hand over each run."""
    if len(args.runs) > 1 and args.to.startswith(("csv:", "parquet:")):
        raise ConfigError(f"--to {args.to}: one file takes one run; without it each gets one of its own")
    for path in args.runs:
        rounds = export(open_tracker(args.to), RunDir.open(path))
        tell(f"{path}: {rounds} rounds handed to {args.to}")
    return 0
