"""`protofed attack [METHOD]`: attack × defence × share on one setting, with the bars judged."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from ..reports import paper
from ..studies.attack_study import cases, judge, plan_attacks, refused_cases
from ..studies.attack_table import attack_page, attack_tables, draw_attacks, records
from ..studies.published import check_page, page_text
from ..studies.study_files import own_name, runs_of, study_mark, write_latex, write_study, write_text
from ..trust.attacks._base import attacks
from ..trust.defences._base import defences
from .parser import add_settings, settings_of
from .study import add_study_flags, carry_out_plan, given_command, print_tables, say_written

ALL = "all"


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "attack",
        description="Let a share of the clients attack, with and without defences at the server: accuracy of "
        "the honest clients, points lost, attack success, the victim class, and whether each defence keeps "
        "to the bars (at most 1 point without attackers, 2 under attack). Interrupted or out of time, the "
        "same command goes on.",
        allow_abbrev=False,
    )
    parser.add_argument("method", nargs="?", default="fedproto", help="method (default: fedproto)")
    parser.add_argument(
        "--attacks",
        nargs="+",
        default=[ALL],
        metavar="NAME",
        help="names, with options: scale:times=100 (default: all)",
    )
    parser.add_argument(
        "--defences",
        nargs="+",
        default=["filter", "median"],
        metavar="NAME",
        help="names, with options, or all (default: filter median; the plain mean is always there)",
    )
    parser.add_argument(
        "--shares",
        nargs="+",
        type=float,
        default=[0.1, 0.2, 0.3, 0.4],
        metavar="X",
        help="shares of the clients that attack (default: 0.1 0.2 0.3 0.4)",
    )
    parser.add_argument(
        "--publish",
        type=Path,
        metavar="FILE.md",
        help="also write the tables as a section of this page, and the figure beside it, as docs/results "
        "keeps them; sections of other methods and data stay",
    )
    parser.add_argument("--mode", help="prediction mode that is read (default: gp_all, where there is one)")
    add_study_flags(parser, 3, "runs/attack")
    add_settings(parser, None)
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Carry out what is missing, judge, print and write."""
    chosen = cases(_named(args.attacks, attacks), _named(args.defences, defences), _shares(args.shares))
    check_page(args.publish)
    planned = plan_attacks(chosen, settings_of(args), args.method, args.seeds)
    out = args.out or Path("runs/attack")
    done = carry_out_plan([one for runs in planned.values() for one in runs], out, args)
    found, mode = judge(planned, done, args.mode)
    tables = attack_tables(found, mode, refused_cases(planned, done))
    mark = study_mark(done.values(), "attack", mode)
    name = own_name(out, "attack", mark)
    about = {"study": mark, "mode": mode, "runs": runs_of(done)}
    markdown = "\n".join(table.markdown() for table in tables)
    paths = write_study(out, name, markdown, records(found), about)
    paths.append(write_latex(out, name, tables))
    shown = args.publish and args.publish.with_name(f"{args.publish.stem}-{_data(planned)}.png")
    figures = [out / f"{name}.png", *([shown] if shown else [])]
    if any(one.attack for one in found) and paper.can_draw():
        paths += [draw_attacks(found, mode, figure) for figure in figures]
    if args.publish:
        page = attack_page(planned, tables, given_command(), shown, page_text(args.publish))
        paths.append(write_text(args.publish, page))
    print_tables(tables, records(found), args.format)
    say_written(paths, done, args)
    return 0


def _data(planned: Mapping[Any, Sequence[Any]]) -> str:
    """The data set's name, as part of a file's name."""
    return re.sub(r"\W+", "-", str(next(iter(planned.values()))[0].config.data))


def _named(asked: Sequence[str], known: Any) -> list[str]:
    return list(known) if list(asked) == [ALL] else list(asked)


def _shares(asked: Sequence[float]) -> list[float]:
    for share in asked:
        if not 0 < share < 0.5:
            raise ConfigError(f"--shares {share:g}: attackers must be a minority: above 0 and below 0.5")
    return sorted(set(asked))
