"""`protofed sweep METHOD --over NAME=VALUES`: one method over options or settings, with a plot."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.algorithm import methods
from ..core.errors import ConfigError, unknown
from ..reports import paper
from ..studies.compare import Comparison, Line, check_different, compare
from ..studies.comparison_table import check_modes, comparison_tables, shown
from ..studies.runner import FINISHED, Done
from ..studies.search import search
from ..studies.study_charts import check_sweep_plot, draw_sweep
from ..studies.study_files import own_name, runs_of, study_mark, write_latex, write_study
from ..studies.sweep import Point, SweepAxis, corners, grid, label, plan_point, read_axis
from .output import tell
from .parser import add_settings, settings_of
from .study import add_study_flags, carry_out_plan, print_tables, say_written


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "sweep",
        description="Run every combination of the given values (or search ranges with Optuna) and print and "
        "plot the outcome. Finished runs are reused where settings and data are the same, and named. Δ and p "
        "compare with the first combination.",
        epilog="Examples: --over lam=0,0.1,1  --over partition.k=10,50,100  --over 'partition=iid;nway:n=3'  "
        "--over lam=0.01..10:log --optuna 20",
        allow_abbrev=False,
    )
    parser.add_argument("method", help="see `protofed list methods`; or FILE.py:CLASS")
    parser.add_argument(
        "--over",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="what is varied, repeatable: an option or setting and its values, as in lam=0,0.1,1",
    )
    parser.add_argument("--optuna", type=int, metavar="TRIALS", help="search instead of a full grid")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="default: OUT/sweep.png, if matplotlib is there"
    )
    parser.add_argument(
        "--modes", default="main", help="prediction modes in the table: all, main, or names joined by +"
    )
    add_study_flags(parser, 1, "runs/sweep")
    name = next((a for a in argv[1:] if a in methods), None) if argv[:1] == ["sweep"] else None
    add_settings(parser, name)
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Carry out the grid, or search; print the tables and write them."""
    if args.method not in methods:
        raise ConfigError(unknown("method", args.method, methods))
    if not args.over:
        raise ConfigError("sweep: say what is varied, for example --over lam=0,0.1,1")
    axes = [read_axis(text) for text in args.over]
    if len({axis.name for axis in axes}) < len(axes):
        raise ConfigError("sweep: a name stands in two --over; list all its values in one")
    check_modes(args.modes, [args.method])
    if args.plot:
        check_sweep_plot(args.plot, len(axes))
    out = args.out or Path("runs/sweep")
    points, done = (_full if args.optuna is None else _searched)(args, axes, out)
    found = compare(list(done.values()), [axis.name.partition(".")[0] for axis in axes])
    tables = comparison_tables(found, f"{args.method} over {', '.join(points[0])}", args.modes)
    records = _records(found, points)
    mark = study_mark(done.values(), "sweep", args.modes)
    name = own_name(out, "sweep", mark)
    about = {"study": mark, "method": args.method, "refused": found.refused, "failed": found.failed}
    about["runs"] = runs_of(done)
    markdown = "\n".join(table.markdown() for table in tables)
    paths = write_study(out, name, markdown, records, about)
    paths.append(write_latex(out, name, tables))
    lines = [line for line in found.lines if shown(line, args.modes)]
    logs = [axis.name for axis in axes if axis.log]
    paths += _plot(lines, points, args.plot or out / f"{name}.png", args.plot is not None, logs)
    printed = [record for record, line in zip(records, found.lines) if shown(line, args.modes)]
    print_tables(tables, printed, args.format)
    say_written(paths, done, args)
    return 0


def _full(
    args: argparse.Namespace, axes: Sequence[SweepAxis], out: Path
) -> tuple[list[Point], dict[str, Done]]:
    points = grid(axes)
    plans = [plan_point(args.method, settings_of(args), point, args.seeds) for point in points]
    plan = [planned for plan in plans for planned in plan]
    check_different(plan, "sweep")
    return points, carry_out_plan(plan, out, args)


def _searched(
    args: argparse.Namespace, axes: Sequence[SweepAxis], out: Path
) -> tuple[list[Point], dict[str, Done]]:
    if args.budget:
        raise ConfigError("sweep: --budget works with a full grid; limit a search by its trials")
    for point in corners(axes):  # a value that cannot be is an error before the first run
        plan_point(args.method, settings_of(args), point, args.seeds)
    points: list[Point] = []
    done: dict[str, Done] = {}
    trials = itertools.count(1)

    def objective(point: Point) -> float:
        plan = plan_point(args.method, settings_of(args), point, args.seeds)
        found = carry_out_plan(plan, out, args, f"trial {next(trials)} of {args.optuna}, ")
        if any(one.state != FINISHED for one in found.values()):  # a seed that diverged is no good setting
            return math.nan
        points.append(point)
        done.update(found)
        lines = compare(list(found.values())).lines
        chosen = [line for line in lines if line.mode == args.modes] or [line for line in lines if line.main]
        if not chosen:
            return math.nan
        return chosen[0].last if math.isnan(chosen[0].validation) else chosen[0].validation

    seed = int(settings_of(args).get("seed", 0))
    best = search(axes, args.optuna, seed, objective)
    if not float(settings_of(args).get("validation", 0)):
        tell(
            "protofed: warning: the search looked at test samples, so its best accuracy flatters; "
            "--validation 0.2 lets it look at held-out training samples instead"
        )
    tell(f"best: {label(best)}")
    return points, done


def _records(found: Comparison, points: Sequence[Point]) -> list[dict[str, Any]]:
    """The lines with the swept values in front."""
    by_label = {label(point): point for point in points}
    return [{**by_label[line.method], **dataclasses.asdict(line)} for line in found.lines]


def _plot(
    lines: Sequence[Line], points: Sequence[Point], path: Path, asked: bool, logs: Sequence[str]
) -> list[Path]:
    """A plot where one was asked for, or can be made."""
    by_label = {label(point): point for point in points}
    pairs = [(by_label[line.method], line) for line in lines]
    if not asked and not (paper.can_draw() and pairs and len(points[0]) <= 2):
        return []
    return [draw_sweep(pairs, path, logs)]
