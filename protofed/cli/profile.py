"""`protofed profile`: where a round's time goes, so that the next bottleneck is seen, not guessed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from .. import experiment as experiments
from ..analysis.profile import profile
from ..config import Config, resolve
from ..core.errors import ConfigError
from ..core.stages import STAGES
from .output import make_console
from .parser import add_settings, settings_of
from .run import target_layers

WATCHED = ("sequential", "cohort", "workers", "workers+cohort")


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "profile",
        description="Times the stages of some rounds in this process, with the settings of `protofed run`. "
        "On the worker engines the stages engine and evaluation are what it waits for.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "target", nargs="?", default="fedproto", metavar="METHOD|RECIPE", help="default: fedproto"
    )
    parser.add_argument("--profile-rounds", type=int, default=2, help="rounds that are timed (default: 2)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_settings(parser, None)
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Time some rounds and print the stages, the longest first."""
    changes = {"engine": "sequential", **settings_of(args)}
    check_engine(changes["engine"])
    config = resolve(*target_layers(args.target), changes)
    seconds = profile(experiments.build(config), max(1, args.profile_rounds))
    if args.json:
        sys.stdout.write(json.dumps(seconds) + "\n")
    else:
        make_console().print(stages_table(config, seconds))
    return 0


def check_engine(engine: str) -> str:
    """Only engines whose rounds this process carries out can be watched."""
    if engine not in WATCHED:
        raise ConfigError(f"profile: engine {engine} cannot be watched; choose one of {', '.join(WATCHED)}")
    return engine


def stages_table(config: Config, seconds: Mapping[str, float]) -> Table:
    """Seconds and share of every stage of a round."""
    total = sum(seconds.values())
    table = Table(title=f"one round of {config.method} on the {config.system.engine} engine: {total:.2f} s")
    table.add_column("stage")
    table.add_column("what it is")
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    for stage, value in sorted(seconds.items(), key=lambda item: -item[1]):
        table.add_row(stage, STAGES[stage], f"{value:.3f}", f"{100 * value / total:.1f} %")
    return table
