"""`protofed partition`: what a partition gives, in numbers and as the bubble chart of FedTGP's paper."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config import Config
from ..data import divide, load
from ..data.split_summary import describe_split
from .parser import add_import


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    default = Config()
    parser = commands.add_parser(
        "partition",
        help="show how a data set is divided among clients",
        description="Divide a data set and print the training samples of every class per client "
        "(class:count); see `protofed list partitions`.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "partition", nargs="?", default=default.partition, help=f"default: {default.partition}"
    )
    parser.add_argument("--data", default=default.data, help=f"data set (default: {default.data})")
    add_import(parser)
    parser.add_argument("--clients", type=int, default=default.clients, help="0: as many as the data names")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--chart", type=Path, metavar="FILE", help="draw client × class bubbles (.png, .svg, .pdf)"
    )
    parser.add_argument("--pfllib", type=Path, metavar="DIR", help="write the split in PFLlib's form")
    parser.add_argument(
        "--most", type=int, default=50, help="clients that are listed one by one (default: 50)"
    )
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Divide, print what each client has, and write what is asked for."""
    dataset = load(args.data)
    split = divide(args.partition, dataset, args.clients, args.seed)
    summary = describe_split(dataset, split, args.most)
    if args.json:
        counts = {"train": summary.train.tolist(), "test": summary.test.tolist(), "classes": dataset.classes}
        sys.stdout.write(json.dumps(counts) + "\n")
    else:
        sys.stdout.write("\n".join(summary.lines) + "\n")
    if args.chart:
        from ..reports.figures import draw_split

        sys.stderr.write(f"drawn: {draw_split(dataset, split, args.chart)}\n")
    if args.pfllib:
        from ..data.pfllib_files import write_split

        write_split(dataset, split, args.pfllib)
        sys.stderr.write(f"written: {args.pfllib}\n")
    return 0
