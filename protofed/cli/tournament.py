"""`protofed tournament`: methods × settings × seeds, each method tuned alike."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError, unknown
from ..reports import paper
from ..runs.outcome import Outcome
from ..studies.plan import Planned
from ..studies.published import check_page
from ..studies.runner import FINISHED, Done, carry_out, read_budget
from ..studies.study_files import own_name, runs_of, study_mark, write_latex, write_study
from ..studies.study_progress import StudyProgress
from ..studies.tournament import (
    Tournament,
    choose,
    known_tournaments,
    plan_finals,
    plan_trials,
    read_tournament,
)
from ..studies.tournament_page import joined, publish_tournament
from ..studies.tournament_table import draw_pareto, records, standings, tournament_tables
from .study import add_study_flags, given_command, print_tables, say_written


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "tournament",
        description="Every method gets the same number of trials in every setting, judged on samples that "
        "clients hold out of training; the best goes to the finals, on seeds that no trial has seen. Tables "
        "of accuracy, differences with standard errors, ranks, and cost. Interrupted or out of time, the "
        "same command goes on.",
        epilog=f"Tournaments that come with protofed: {', '.join(known_tournaments())}.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "tournament", nargs="?", default="beyond", help="name, or a .toml file (default: beyond)"
    )
    parser.add_argument("--methods", metavar="A,B", help="only these entrants")
    parser.add_argument("--settings", metavar="A,B", help="only these settings")
    parser.add_argument(
        "--trials", type=int, metavar="N", help="trials of each method (default: as the file says)"
    )
    parser.add_argument(
        "--publish",
        type=Path,
        metavar="FILE.md",
        help="also write the tables into this page, the standings into a .json beside it; settings that it "
        "has from earlier calls stay",
    )
    add_study_flags(parser, None, "runs/tournament-NAME")
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Trials, finals, tables."""
    check_page(args.publish)
    tournament = _asked(args)
    out = args.out or Path(f"runs/tournament-{tournament.name}")
    until = None if args.budget is None else time.monotonic() + read_budget(args.budget)
    trials = plan_trials(tournament)
    done = _carry_out([p for some in trials.values() for _, p in some], out, args.quiet, until, "trials, ")
    chosen = choose(tournament, trials, done)
    finals = plan_finals(tournament, chosen)
    last = _carry_out([p for some in finals.values() for p in some], out, args.quiet, until, "finals, ")
    found = standings({match: _finished(some, last) for match, some in finals.items()}, chosen)
    every = {**done, **last}
    paths = []
    if args.publish:
        whole = replace(tournament, settings=read_tournament(args.tournament).settings)
        found = joined(whole, found, args.publish)
        paths = publish_tournament(whole, found, given_command(), args.publish)
    tables = tournament_tables(tournament, found)
    mark = study_mark(every.values(), "tournament")
    name = own_name(out, "tournament", mark)
    about = {"study": mark, "tournament": tournament.name, "runs": runs_of(every)}
    paths += write_study(out, name, "\n".join(table.markdown() for table in tables), records(found), about)
    paths.append(write_latex(out, name, tables))
    if found and paper.can_draw():
        paths.append(draw_pareto(found, out / f"{name}-cost.png"))
    print_tables(tables, records(found), args.format)
    say_written(paths, every, args)
    return 0


def _asked(args: argparse.Namespace) -> Tournament:
    tournament = read_tournament(args.tournament)
    entrants = _some(args.methods, tournament.entrants, "method")
    settings = _some(args.settings, list(tournament.settings), "setting")
    changes: dict[str, Any] = {"entrants": tuple(entrants)}
    changes["settings"] = {name: dict(tournament.settings[name]) for name in settings}
    if args.trials is not None:
        for setting in changes["settings"].values():
            setting.pop("trials", None)
    for name in ("trials", "seeds"):
        if getattr(args, name) is not None:
            if getattr(args, name) < 1:
                raise ConfigError(f"--{name}: must be at least 1, got {getattr(args, name)}")
            changes[name] = getattr(args, name)
    return replace(tournament, **changes)


def _some(asked: str | None, known: Sequence[str], what: str) -> list[str]:
    if asked is None:
        return list(known)
    names = [name.strip() for name in asked.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise ConfigError(unknown(what, name, known))
    return [name for name in known if name in names]


def _carry_out(
    plan: Sequence[Planned], out: Path, quiet: bool, until: float | None, part: str
) -> dict[str, Done]:
    left = None if until is None else max(0.0, until - time.monotonic())
    with StudyProgress(quiet, part) as progress:
        return carry_out(plan, out / "runs", left, progress) if plan else {}


def _finished(plan: Sequence[Planned], done: Mapping[str, Done]) -> list[Outcome]:
    """The finals of a match, once all of them are over."""
    found = [done[planned.key] for planned in plan]
    whole = all(one.state == FINISHED for one in found)
    return [Outcome.read(one.path) for one in found] if whole else []
