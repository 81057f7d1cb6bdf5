"""`protofed forget RUN --client 3`: take a client out of a run, exactly."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from ..forgetting import Forgotten, forget
from ..runs.directory import RunDir
from .output import make_console
from .parser import add_import


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "forget",
        description="Take a client's sums out of the server's state, for methods whose state is a sum "
        "(fedcommons, fed3r, fedncm, fedcof): the state is then the one of a run without that client. Its "
        "stored state and the checkpoint before are deleted; in later rounds it sends and gets nothing. What "
        "was written about past rounds (metrics, reports) stays.",
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--client", type=int, required=True, help="number of the client")
    parser.add_argument(
        "--networks",
        choices=("keep", "anew"),
        default="keep",
        help="the others' networks, which were trained beside a server that knew the client: keep them, or "
        "start anew with `protofed resume RUN --rounds N` (default: keep)",
    )
    add_import(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Forget a client and print what that changes for the others."""
    found = forget(RunDir.open(args.run), args.client, args.networks)
    if args.json:
        sys.stdout.write(json.dumps(asdict(found)) + "\n")
        return 0
    console = make_console()
    if found.before:
        console.print(_table(found))
    console.print(
        f"client {found.client} is out of the server's sums; {found.remaining} clients remain in them"
    )
    if found.networks == "keep":
        console.print(
            "The other clients' networks were trained beside it and are kept; --networks anew drops them."
        )
    else:
        console.print(f"All networks start anew: protofed resume {args.run} --rounds {2 * found.round}")
    return 0


def _table(found: Forgotten) -> Table:
    table = Table(title=f"the other clients, round {found.round}: mean test accuracy (%)")
    table.add_column("prediction")
    for column in ("before", "after"):
        table.add_column(column, justify="right")
    for mode, value in found.before.items():
        table.add_row(mode, f"{value:.2f}", f"{found.after[mode]:.2f}")
    return table
