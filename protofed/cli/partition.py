"""`protofed partition`: what a partition gives, in numbers and as the bubble chart of FedTGP's paper."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config import Config, resolve
from ..core.escape import visible
from ..data import divide, load
from ..data.split_summary import describe_split
from .output import tell
from .parser import add_import, add_sites


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    default = Config()
    parser = commands.add_parser(
        "partition",
        description="Divide a data set and print the training samples of every class per client "
        "(class:count); see `protofed list partitions`.",
        allow_abbrev=False,
    )
    parser.add_argument("partition", nargs="?", help=f"default: {default.partition}; of sites: natural")
    parser.add_argument("--data", help=f"data set (default: {default.data})")
    add_sites(parser)
    add_import(parser)
    parser.add_argument(
        "--clients", type=int, help=f"0: as many as the data names (default: {default.clients}; of sites: 0)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--chart", type=Path, metavar="FILE", help="draw client × class bubbles (.png, .svg, .pdf)"
    )
    parser.add_argument(
        "--classes",
        type=Path,
        metavar="FILE",
        help="draw how many classes clients have: bars, a histogram, mixes (.png, .svg, .pdf)",
    )
    parser.add_argument("--pfllib", type=Path, metavar="DIR", help="write the split in PFLlib's form")
    parser.add_argument(
        "--most", type=int, default=50, help="clients that are listed one by one (default: 50)"
    )
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Divide, print what each client has, and write what is asked for."""
    found = vars(args)
    given = {key: found[key] for key in ("data", "partition", "clients") if found[key] is not None}
    given |= {key: found[f"setting:{key}"] for key in ("sites", "each") if f"setting:{key}" in found}
    config = resolve(given)
    dataset = load(config.data)
    split = divide(config.partition, dataset, config.clients, args.seed)
    summary = describe_split(dataset, split, args.most)
    if args.json:
        counts = {"train": summary.train.tolist(), "test": summary.test.tolist(), "classes": dataset.classes}
        sys.stdout.write(json.dumps(counts) + "\n")
    else:
        sys.stdout.write("".join(f"{visible(line)}\n" for line in summary.lines))
    if args.chart:
        from ..reports.figures import draw_split

        tell(f"drawn: {draw_split(dataset, split, args.chart)}")
    if args.classes:
        from ..reports.class_histograms import draw_classes

        tell(f"drawn: {draw_classes(dataset, split, args.classes)}")
    if args.pfllib:
        from ..data.pfllib_files import write_split

        write_split(dataset, split, args.pfllib)
        tell(f"written: {args.pfllib}")
    return 0
