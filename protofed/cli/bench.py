"""`protofed bench`: how fast we are, beside plain PyTorch, on the workloads of the papers."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..bench.measure import bench, machine
from ..bench.workloads import WORKLOADS


def add(commands: Any, argv: Sequence[str]) -> None:
    parser = commands.add_parser(
        "bench",
        help="time the workloads of the papers beside plain PyTorch loops",
        description="Contenders take turns in one process run; ratios are of medians. Absolute seconds "
        "depend on the machine and on what else runs there: compare ratios.",
        allow_abbrev=False,
    )
    parser.add_argument("workloads", nargs="*", default=[], metavar="W1|W2|W3|W4", help="default: all")
    parser.add_argument("--engines", default="auto", help="engines to time, joined by commas (default: auto)")
    parser.add_argument("--repeats", type=int, default=3, help="timed turns (default: 3)")
    parser.add_argument("--small", action="store_true", help="tiny made-up data: only shows that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    console = Console(stderr=True)
    results = []
    with tempfile.TemporaryDirectory() as folder, console.status("") as status:
        for name in [w.lower() for w in args.workloads] or list(WORKLOADS):
            engines = [e.strip() for e in args.engines.split(",")]
            results.append(bench(name, Path(folder), engines, args.repeats, args.small, status.update))
    about = machine()
    out = Console()
    out.print(f"{about['processor']}, {about['cores']} cores, torch {about['torch']}", highlight=False)
    for result in results:
        out.print(_table(result))
        out.print(_notes(result), highlight=False)
    if args.json:
        args.json.write_text(json.dumps({"machine": about, "workloads": results}, indent=2) + "\n")
        sys.stderr.write(f"written: {args.json}\n")
    return 0


def _table(result: dict[str, Any]) -> Table:
    rows = result["rows"]
    references = [row["name"] for row in rows if not row["name"].startswith("protofed")]
    table = Table(title=f"{result['workload'].upper()}: {result['title']}", caption=result["data"])
    table.add_column("contender")
    for column in ("seconds a round", "samples/s", *(f"× {name}" for name in references)):
        table.add_column(column, justify="right")
    for row in rows:
        ratios = [f"{row['ratios'][name]:.2f}" for name in references]
        table.add_row(row["name"], f"{row['seconds']:.2f}", f"{row['samples_per_second']:,.0f}", *ratios)
    return table


def _notes(result: dict[str, Any]) -> str:
    memory = ", ".join(f"{name} {value:,.0f} MB" for name, value in result["peak_mb"].items())
    return (
        f"{result['samples']:,} samples a round, medians of {result['repeats']}; a test of the participants "
        f"takes {100 * result['evaluation_share']:.1f} % of a round with it; peak memory: {memory}"
    )
