"""`protofed profile`: where a round's time goes, so that the next bottleneck is seen, not guessed."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from .. import experiment as experiments
from ..analysis.profile import profile
from ..bench.workloads import WORKLOADS, workload_config
from ..config import resolve
from ..core.errors import ConfigError
from ..core.stages import STAGES
from .output import make_console
from .parser import add_settings, settings_of
from .run import target_layers


def add(commands: Any, argv: Sequence[str]) -> None:
    parser = commands.add_parser(
        "profile",
        help="show where the time of a round goes",
        description="Times the parts of some rounds on an engine of this process (sequential or cohort), of "
        "a workload of `protofed bench` (w1 to w4) or of any method with the settings of `protofed run`.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "target", nargs="?", default="w1", metavar="WORKLOAD|METHOD|RECIPE", help="default: w1"
    )
    parser.add_argument("--profile-rounds", type=int, default=2, help="rounds that are timed (default: 2)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="a workload on tiny made-up data")
    add_settings(parser, None)
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    changes = {"engine": "sequential", **settings_of(args)}
    if changes["engine"] not in ("sequential", "cohort"):
        raise ConfigError(f"profile: engine {changes['engine']} runs elsewhere; choose sequential or cohort")
    with tempfile.TemporaryDirectory() as folder:
        if args.target.lower() in WORKLOADS:
            config, _ = workload_config(args.target.lower(), Path(folder), args.quick, **changes)
        else:
            config = resolve(*target_layers(args.target), changes)
        seconds = profile(experiments.build(config), max(1, args.profile_rounds))
    if args.json:
        sys.stdout.write(json.dumps(seconds) + "\n")
        return 0
    total = sum(seconds.values())
    table = Table(title=f"one round of {config.method} on the {config.system.engine} engine: {total:.2f} s")
    table.add_column("part")
    table.add_column("what it is")
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    for part, value in sorted(seconds.items(), key=lambda item: -item[1]):
        table.add_row(part, STAGES[part], f"{value:.3f}", f"{100 * value / total:.1f} %")
    make_console().print(table)
    return 0
