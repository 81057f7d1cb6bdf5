"""`protofed run` and `protofed resume`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import experiment
from ..config import resolve
from ..core.algorithm import methods
from ..core.errors import ConfigError, unknown
from ..core.user_files import short_name
from ..runs.about import has_about
from ..runs.contents import check_version, renew_contents
from ..runs.directory import RunDir
from ..runs.kept_files import CURRENT, KEPT, REFUSE, recipe_of_run, renew_files
from ..trackers import Tracking, open_tracker
from .deploy import is_deployed, resume_deployed
from .output import tell
from .parser import add_settings, settings_of
from .progress import RoundProgress
from .show import print_run
from .watch import Beside


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare `run` and `resume`; the options of the method that `run` names are flags too."""
    target = _find_target(argv[1:]) if argv[:1] == ["run"] else None
    if argv[:1] == ["run"] and {"-h", "--help"} & set(argv):
        _check_known(argv[1])
    parser = commands.add_parser(
        "run",
        description="Run a method (see `protofed list methods`), or a recipe (.toml, or the config.json "
        "of an earlier run). Settings given here win over the recipe's.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "target",
        nargs="?",
        metavar="METHOD|RECIPE",
        help="default: fedproto; your own: FILE.py:CLASS",
    )
    parser.add_argument("--out", type=Path, help="run directory (default: runs/METHOD-DATA-TIME)")
    parser.add_argument("--force", action="store_true", help="overwrite a run in the same directory")
    _add_output(parser)
    add_settings(parser, _method_of(target))
    parser.set_defaults(function=run)
    parser = commands.add_parser(
        "resume",
        description="Continue a run after its last checkpoint. With --rounds also beyond the rounds planned; "
        "what depends on their number (schedule poly, FedKD's threshold) sees the new one from then on.",
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds in all (default: as planned)")
    parser.add_argument(
        "--changed",
        choices=(CURRENT, KEPT),
        help="where a file of yours, the data or protofed itself has changed since the run began: go on with "
        "what it is now, or with the run's copies of your Python files (default: refuse)",
    )
    _add_output(parser)
    parser.set_defaults(function=resume)


def run(args: argparse.Namespace) -> int:
    """Start a run in a new directory."""
    layers = [*target_layers(args.target), settings_of(args)]
    config = resolve(*layers)
    out = args.out or _default_out(config.method, config.data)
    built = experiment.build(config)
    return _carry_out(built, RunDir.create(out, built.config.to_dict(), args.force), args)


def resume(args: argparse.Namespace) -> int:
    """Go on with a run, to its end or for more rounds."""
    if args.rounds is not None:
        return _go_on(args)
    if is_deployed(args.run) and RunDir(args.run).summary is None:  # perhaps before its first round
        resume_deployed(args.run)
        return _show(RunDir.open(args.run), args)
    directory = RunDir.open(args.run)
    directory.lock.take()  # before anything is read that a running process may change
    if directory.summary is not None:
        if not (args.quiet or args.json):
            tell(f"{args.run} is finished already")
        return _show(directory, args)
    return _carry_out(_reopen(directory, args), directory, args)


def _reopen(
    directory: RunDir, args: argparse.Namespace, config: dict[str, Any] | None = None
) -> experiment.Experiment:
    go_on = args.changed == CURRENT
    told = _warn if go_on else None
    check_version(directory, told)
    built = experiment.reopen(directory, _warn, config, args.changed or REFUSE, told)
    if go_on and has_about(directory.path):
        with directory.locked():  # nothing of the run is touched before all of it could be read
            renew_files(directory.path)
            renew_contents(directory, built.contents, built.federation.round)
    return built


def _go_on(args: argparse.Namespace) -> int:
    """More rounds than were planned. Nothing of the run is touched before all of it could be read."""
    if is_deployed(args.run):
        raise ConfigError("--rounds: not for a deployed run, whose rounds stand in the server's recipe.toml")
    directory = RunDir.open(args.run)
    directory.lock.take()  # not under the hands of a run that is going on
    config = directory.longer(args.rounds)
    built = _reopen(directory, args, config)
    directory.extend(config)
    return _carry_out(built, directory, args)


def _carry_out(built: experiment.Experiment, directory: RunDir, args: argparse.Namespace) -> int:
    if not (args.quiet or args.json):
        for note in built.notes():
            tell(f"data: {note}")
        if built.engine_reason:
            tell(f"engine {built.config.system.engine} (auto: {built.engine_reason})")
    with (
        Beside(directory, args.watch),
        RoundProgress(built.config, directory.path, args.quiet or args.json) as progress,
        Tracking(args.track, directory, progress, _warn) as follow,
    ):
        experiment.carry_out(built, directory, follow)
    return _show(directory, args)


def _warn(text: str) -> None:
    tell(f"protofed: warning: {text}")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no progress and no table")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON, nothing else")
    parser.add_argument("--watch", action="store_true", help="show the run in the browser while it goes on")
    parser.add_argument(
        "--track",
        type=open_tracker,
        action="append",
        default=[],
        metavar="KIND[:TARGET]",
        help="also hand the numbers to csv, parquet, tensorboard or mlflow",
    )


def _show(directory: RunDir, args: argparse.Namespace) -> int:
    if args.json:
        sys.stdout.write(json.dumps({"run": str(directory.path), **(directory.summary or {})}) + "\n")
    elif not args.quiet:
        print_run(directory)
    return 0


def target_layers(target: str | None) -> list[dict[str, Any]]:
    """The settings of a method or a recipe, as layers for `config.resolve`."""
    if target is None:
        return []
    path = Path(target)
    if path.suffix in (".toml", ".json"):
        return [recipe_of_run(path, _warn)]
    _check_known(target)
    return [{"method": target}]


def _find_target(argv: Sequence[str]) -> str | None:
    """The method or recipe among arguments that are not parsed yet, wherever it stands."""
    words = [a for a in argv if not a.startswith("-")]
    named = [a for a in words if a in methods or Path(a).suffix in (".toml", ".json")]
    return next(iter([*named, *words]), None)


def _check_known(first: str) -> None:
    """Refuse a method that does not exist: also before its help, which would be that of no method."""
    if not first.startswith("-") and Path(first).suffix not in (".toml", ".json") and first not in methods:
        raise ConfigError(unknown("method", first, methods) + " (or give a .toml recipe, or FILE.py:CLASS)")


def _method_of(target: str | None) -> str | None:
    """The method whose options `--help` explains."""
    if target is None:
        return "fedproto"
    if Path(target).suffix in (".toml", ".json") and Path(target).exists():
        return str(recipe_of_run(Path(target)).get("method", "fedproto"))
    return target if target in methods else None


def _default_out(method: str, data: str) -> Path:
    name = "".join(c if c.isalnum() or c in "-_" else "_" for c in Path(data.split(":")[0]).stem)
    base = Path("runs") / f"{short_name(method)}-{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = base, 1
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path
