"""`protofed compare METHODS…`: several methods on one setting, and the table a paper would print."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..studies.compare import compare, plan_comparison
from ..studies.comparison_table import check_modes, comparison_tables, heading, shown
from ..studies.study_files import own_name, runs_of, study_mark, write_latex, write_study
from .parser import add_settings, settings_of
from .study import add_study_flags, carry_out_plan, print_tables, say_written


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "compare",
        description="Run methods on the same split, first weights, participants and batches, and print mean "
        "and spread over clients and seeds, best and last round, cost and significance. A method may carry a "
        "preset, options and settings: fedproto:preset=official,lam=0.1. Local training is the same for all, "
        "except for methods with a preset of their own. Finished runs are reused where settings and data are "
        "the same, and named.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "methods", nargs="+", metavar="METHOD", help="names or FILE.py:CLASS; all: every other"
    )
    parser.add_argument(
        "--modes", default="all", help="prediction modes in the table: all, main, or names joined by +"
    )
    add_study_flags(parser, 3, "runs/compare")
    add_settings(parser, None)
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Carry out what is missing, print the tables and write them."""
    plan = plan_comparison(args.methods, settings_of(args), args.seeds)
    check_modes(args.modes, [planned.config.method for planned in plan])
    out = args.out or Path("runs/compare")
    done = carry_out_plan(plan, out, args)
    found = compare(list(done.values()))
    tables = comparison_tables(found, heading([planned.config for planned in plan]), args.modes)
    records = [dataclasses.asdict(line) for line in found.lines]
    markdown = "\n".join(table.markdown() for table in tables)
    mark = study_mark(done.values(), "compare", args.modes)
    name = own_name(out, "comparison", mark)
    about = {"study": mark, "refused": found.refused, "failed": found.failed, "runs": runs_of(done)}
    paths = write_study(out, name, markdown, records, about)
    paths.append(write_latex(out, name, tables))
    printed = [record for record, line in zip(records, found.lines) if shown(line, args.modes)]
    print_tables(tables, printed, args.format)
    say_written(paths, done, args)
    return 0
