"""`python -m benchmarks`: how fast we are, beside plain PyTorch, on the workloads of the papers.

Exit codes: 0 done; 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from protofed.analysis.profile import profile
from protofed.cli.output import make_console
from protofed.cli.parser import Parser, UsageError
from protofed.cli.profile import check_engine, stages_table
from protofed.core.errors import ConfigError, ProtofedError, unknown
from protofed.experiment import build

from . import scale as scales
from .aggregation import aggregation
from .deployed import measure_deployed, read_deployed
from .duration import minutes
from .figure import check_figure, draw_scale
from .goals import judged
from .machine import load, machine
from .measure import Plan, bench
from .peers import present
from .released import RELEASED, check
from .server_step import server_step
from .starts import starts
from .tables import Grid, markdown, tables, write_markdown
from .workloads import WORKLOADS, workload_config

OTHERS = ("aggregation", "server_step", "scale", "starts", "deployed")
WIDE = 180  # columns of a file that tables are printed into
BY_NAME = "deployed"  # is measured where it is named: it starts servers


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what the arguments name; user errors become one line on stderr."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        args = _parser().parse_args(words)
        return _profiles(args) if args.profile else _measure(args, words)
    except (UsageError, ProtofedError) as error:
        sys.stderr.write(f"benchmarks: error: {' '.join(str(error).split())}\n")
        return 2


def _parser() -> Parser:
    parser = Parser(
        prog="python -m benchmarks",
        description="Contenders take turns in one process run. Given are seconds by the clock and of CPU, "
        "the least and the median of the turns. They depend on the machine and on what else runs there: "
        "compare ratios, and of these the ones of CPU seconds first.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "what",
        nargs="*",
        default=[],
        metavar="|".join([*WORKLOADS, *OTHERS]),
        help="default: all but deployed; aggregation: the server alone, server_step: FedTGP's, scale: "
        "growing federations, starts: commands, deployed: a round over TLS",
    )
    parser.add_argument("--engines", default="auto", help="engines to time, joined by commas (default: auto)")
    parser.add_argument("--repeats", type=int, default=3, help="timed turns (default: 3)")
    parser.add_argument(
        "--all-threads",
        action="store_true",
        help="the bare loop also with a thread on each core, ten times slower where others use them",
    )
    parser.add_argument("--quick", action="store_true", help="tiny made-up data: only shows that it works")
    parser.add_argument(
        "--peers", action="store_true", help="W1 also on Flower's simulation and on pfl, where installed"
    )
    for name, which in RELEASED.items():
        parser.add_argument(
            which.option,
            type=Path,
            metavar="PATH",
            help=f"{'W1' if name == 'fedproto' else 'W2'} also with {which.title}, of which PATH is a clone",
        )
    parser.add_argument(
        "--deployed",
        type=Path,
        metavar="FILE",
        help="what `protofed deploy measure --deployed --json` printed",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    parser.add_argument(
        "--add", action="store_true", help="keep what the --json file has of parts that are not timed now"
    )
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="write the tables here too, between the marks of a page",
    )
    parser.add_argument(
        "--figure", type=Path, metavar="FILE", help="draw what `scale` finds: .svg, .png or .pdf"
    )
    parser.add_argument(
        "--profile", action="store_true", help="show instead where the time of a workload's round goes"
    )
    return parser


def _measure(args: argparse.Namespace, words: Sequence[str]) -> int:
    what = _what(args)
    results: dict[str, Any] = {"commands": [_command(words)], "workloads": []}
    if args.add:
        _add(results, args.json, what)
    if args.deployed:
        results["deployed"] = {"lines": read_deployed(args.deployed)}
    given = {name: getattr(args, name) for name in RELEASED if getattr(args, name)}
    released = {name: check(name, path) for name, path in given.items()}
    peers, absent = present() if args.peers else ([], [])
    if absent:
        results["absent"] = absent
        _line(f"not installed, so not measured: {', '.join(absent)}")
    if not args.quick:
        taken = minutes(what, args.repeats, [*peers, *released])
        _line(f"about {taken:.0f} minutes on a machine like that of docs/speed.md")
    results["machine"] = machine(0.2 if args.quick else 3.0)
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder, console.status("") as status:
        tell = status.update if console.is_terminal else _line
        engines = [engine.strip() for engine in args.engines.split(",")]
        plan = Plan(Path(folder), engines, args.repeats, args.all_threads, args.quick, peers, released)
        for name in [name for name in what if name in WORKLOADS]:
            results["workloads"].append(bench(name, plan, tell))
            results["workloads"].sort(key=lambda result: result["workload"])
            _keep(args.json, results)
        results |= _others(what, args.quick, args.repeats, tell)
    results["load_after"] = load()
    results["goals"] = judged(results)
    _print(results)
    _write(args, results)
    return 0


def _command(words: Sequence[str]) -> str:
    """As it was typed, but for folders: whose clone it was says nothing to a reader."""
    shown, hide = [], False
    for word in words:
        option, equals, _ = word.partition("=")
        path = option in {which.option for which in RELEASED.values()}
        shown.append("PATH" if hide else f"{option}=PATH" if path and equals else word)
        hide = path and not equals
    return " ".join(["python -m benchmarks", *shown])


def _profiles(args: argparse.Namespace) -> int:
    """Where the time of a round goes, on engines of this process."""
    engines = ["sequential"] if args.engines == "auto" else args.engines.split(",")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in [name for name in _what(args) if name in WORKLOADS]:
            for engine in map(check_engine, engines):
                config, _ = workload_config(name, Path(folder), args.quick, engine=engine)
                found[f"{name} {engine}"] = seconds = profile(build(config), args.repeats)
                make_console().print(stages_table(config, seconds))
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


def _add(results: dict[str, Any], file: Path, what: Sequence[str]) -> None:
    """What an earlier run wrote of other parts."""
    old = _earlier(file)
    results["commands"] = [*old["commands"], *results["commands"]]
    results["workloads"] += [result for result in old["workloads"] if result["workload"] not in what]
    results |= {name: old[name] for name in OTHERS if name in old and name not in what}


def _earlier(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {"commands": [], "workloads": []}
    try:
        old = json.loads(file.read_text())
    except ValueError:
        old = None
    if not isinstance(old, dict) or not old.keys() >= {"commands", "workloads"}:
        raise ConfigError(f"--add: {file} is not what `python -m benchmarks --json` wrote; name another file")
    return old


def _line(progress: str) -> None:
    sys.stderr.write(f"{progress}\n")


def _what(args: argparse.Namespace) -> list[str]:
    known = [*WORKLOADS, *OTHERS]
    what = [name.lower() for name in args.what] or [name for name in known if name != BY_NAME]
    for name in what:
        if name not in known:
            raise ConfigError(unknown("benchmark", name, known))
    if args.repeats < 1:
        raise ConfigError(f"--repeats: must be at least 1, got {args.repeats}")
    if args.add and not args.json:
        raise ConfigError("--add: name the file that is added to with --json FILE")
    if args.figure:
        check_figure(args.figure)
        what = what if "scale" in what else [*what, "scale"]
    return what


def _others(what: list[str], quick: bool, repeats: int, tell: Callable[[str], None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    torch.set_num_threads(1)  # as in a run: the operations are too small to be shared
    registered = (10, 1_000) if quick else scales.REGISTERED
    participants = (2, 4) if quick else scales.PARTICIPANTS
    rounds = 1 if quick else max(3, repeats)
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "aggregation": lambda: aggregation(500 if quick else 100_000, repeats),
        "server_step": lambda: server_step(2 if quick else 20, 1 if quick else 100, repeats),
        "scale": lambda: scales.scale(participants, registered, rounds, tell, apart=not quick),
        "starts": lambda: starts(repeats),
        "deployed": measure_deployed,
    }
    for name in [name for name in parts if name in what]:
        tell(name)
        before = load()
        found[name] = parts[name]() | {"load": [before, load()]}
    return found


def _print(results: dict[str, Any]) -> None:
    about = results["machine"]
    out = Console() if sys.stdout.isatty() else Console(width=WIDE)
    out.print(
        f"{about['processor']}, {about['cores']} cores that do {about['parallel']} times the work of one, "
        f"torch {about['torch']}, load {about['load']} at the start, {results['load_after']} at the end",
        highlight=False,
    )
    for grid in tables(results):
        out.print(_table(grid))


def _table(grid: Grid) -> Table:
    table = Table(title=grid.title, caption=grid.note or None)
    for number, column in enumerate(grid.columns):
        table.add_column(column, justify="right" if number else "left")
    for row in grid.rows:
        table.add_row(*row)
    return table


def _keep(file: Path | None, results: dict[str, Any]) -> None:
    """What is known so far: a run of all workloads takes long, and may be stopped."""
    if file:
        file.write_text(json.dumps(results, indent=2) + "\n")


def _write(args: argparse.Namespace, results: dict[str, Any]) -> None:
    _keep(args.json, results)
    if args.markdown:
        figure = os.path.relpath(args.figure, args.markdown.parent) if args.figure else None
        write_markdown(args.markdown, markdown(results, figure))
    if args.figure:
        draw_scale(results["scale"], args.figure)
    for file in (args.json, args.markdown, args.figure):
        if file:
            sys.stderr.write(f"written: {file}\n")


if __name__ == "__main__":
    sys.exit(main())
