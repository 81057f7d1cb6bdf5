"""`protofed show RUN`: what a run reached, and what it cost."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from ..runs.directory import RunDir
from .output import make_console

MODES = {
    "clf": "classifier",
    "gp_all": "nearest global prototype",
    "gp_local": "nearest global prototype among own classes",
    "lp": "nearest own prototype",
}


def add(commands: Any, argv: Sequence[str]) -> None:
    parser = commands.add_parser("show", help="show a run", allow_abbrev=False)
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--json", action="store_true", help="print the last record as JSON")
    parser.set_defaults(function=show)


def show(args: argparse.Namespace) -> int:
    directory = RunDir.open(args.run)
    if args.json:
        lines = directory.lines("metrics.jsonl")
        sys.stdout.write(
            json.dumps({"config": directory.config, "last": lines[-1] if lines else None}) + "\n"
        )
    else:
        print_run(directory)
    return 0


def print_run(directory: RunDir) -> None:
    """A table of accuracies under their names, and lines about cost and state."""
    console = make_console()
    config, lines, summary = directory.config, directory.lines("metrics.jsonl"), directory.summary or {}
    tested = [line for line in lines if line.get("acc")]
    total = config["rounds"]["rounds"]
    console.print(
        f"{config['method']} ({config['preset']}) on {config['data']}, {config['partition']}, "
        f"{config['models']}, seed {config['seed']}",
        highlight=False,
    )
    if tested:
        console.print(_accuracy_table(tested))
    alone = summary.get("one_class")
    if alone and tested and "gp_local" in tested[-1]["acc"]:
        console.print(
            f"{alone} of these clients train on a single class: there gp_local cannot be wrong",
            highlight=False,
        )
    if lines:
        up, down = (sum(line[way]["params"] for line in lines) for way in ("up", "down"))
        seconds = sum(line["seconds"] + line.get("eval_seconds", 0) for line in lines)
        console.print(
            f"sent up {up:,} and down {down:,} parameters ({4 * up:,} and {4 * down:,} bytes) "
            f"in {len(lines)} rounds, {seconds:.1f} s",
            highlight=False,
        )
    if len(lines) < total:
        console.print(
            f"{len(lines)} of {total} rounds done; continue with: protofed resume {directory.path}",
            highlight=False,
        )
    console.print(f"run: {directory.path}", highlight=False, soft_wrap=True)


def _accuracy_table(tested: list[dict[str, Any]]) -> Table:
    last = tested[-1]
    table = Table(title=f"accuracy over {last['tested_clients']} clients, round {last['round']} (%)")
    table.add_column("prediction")
    for name in ("mean", "std", "worst client", "worst 10 %", "best mean (round)"):
        table.add_column(name, justify="right")
    for mode, value in last["acc"].items():
        best, round = max((line["acc"][mode]["mean"], -line["round"]) for line in tested)
        numbers = [f"{value[k]:.2f}" for k in ("mean", "std", "worst", "worst10")]
        table.add_row(f"{mode} ({MODES.get(mode, mode)})", *numbers, f"{best:.2f} ({-round})")
    for mode, value in last.get("miou", {}).items():
        table.add_row(f"mIoU {mode}", f"{value:.2f}", "", "", "", "")
    return table
