"""`protofed privacy RUN`: what clients revealed, and what attacks find with each protection on and off."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..analysis.leakage import Leakage, measure_leakage
from ..analysis.protections import DEFAULT
from ..analysis.revealed import participation
from ..core.errors import ConfigError, RunError
from ..experiment import DEPLOYED, GIVEN, Experiment, reopen
from ..reports.figures import check_figure
from ..reports.inside import OnThisMachine
from ..runs.directory import RunDir
from ..runs.outcome import Outcome
from .output import make_console, tell
from .parser import add_import
from .privacy_tables import caveats, inversion_table, membership_table, protection_lines, revealed_table
from .progress import PartProgress

CLIENTS = 5  # that are attacked by default


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "privacy",
        description="What each client revealed in a run, what can be reconstructed from its prototypes "
        "or its change of the weights, and "
        "whether training samples can be told from others (membership inference): with each protection on "
        "and off. The data of the run is needed. Figures are of the attacks that are tried here: lower "
        "bounds of what can be found out.",
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    _add_attacks(parser)
    parser.add_argument(
        "--figure",
        type=Path,
        metavar="FILE",
        help="images of the first attacked client beside their reconstructions: .png, .svg or .pdf",
    )
    parser.add_argument(
        "--audit",
        action="store_true",
        help="also: canaries against the noise of each protection with ε; the lower bound that they prove "
        "must lie below the ε that is claimed",
    )
    parser.add_argument(
        "--trials", type=int, default=2000, metavar="N", help="with --audit: draws of noise (default: 2000)"
    )
    add_import(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress; the tables are still printed")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(function=command)


def _add_attacks(parser: argparse.ArgumentParser) -> None:
    """What is attacked, behind which protections, and how long."""
    parser.add_argument(
        "--client",
        type=int,
        action="append",
        metavar="K",
        help=f"client that is attacked; repeatable (default: the first {CLIENTS} that took part)",
    )
    parser.add_argument(
        "--protect",
        nargs="+",
        metavar="P",
        help="protections that are put on the same uploads: secure, fp16, int8, dp:client:noise=…,clip=…, "
        f"dp:example:noise=… (default: {' '.join(DEFAULT)}, where the method allows them)",
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=500,
        metavar="N",
        help="most training rows, and most test rows, of a client (default: 500)",
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=200,
        metavar="N",
        help="steps of inversion, which take most of the time: minutes where ResNets send their weights; "
        "fewer are quicker and find less, 0: none (default: 200)",
    )


def command(args: argparse.Namespace) -> int:
    """Reopen the run, attack it, and print what was found."""
    for flag, least in (("samples", 1), ("steps", 0), ("trials", 20)):
        if getattr(args, flag) < least:
            raise ConfigError(f"--{flag}: must be at least {least}, got {getattr(args, flag)}")
    if args.figure and not args.steps:
        raise ConfigError("--figure: shows what inversion found, and --steps 0 leaves that out")
    if args.figure:
        check_figure(args.figure, "figure")
    experiment, outcome = _reopened(args.run), Outcome.read(args.run)
    taken = participation(outcome.lines)
    latest = outcome.lines[-1].get("participants") if outcome.lines else None
    clients = _chosen(experiment, args.client, taken)
    with PartProgress(args.quiet or args.json) as watch:
        found = measure_leakage(
            experiment, clients, taken, latest, args.protect, args.samples, args.steps, watch
        )
    audits = _audited(experiment, found, args.trials) if args.audit else []
    if args.json:
        sys.stdout.write(json.dumps(_as_dict(found, audits)) + "\n")
    else:
        _print(found, outcome, audits)
    if args.figure:
        _draw(found, experiment, args.figure)
    return 0 if all(one.holds for one in audits) else 1


def _reopened(path: Path) -> Experiment:
    directory = RunDir.open(path)
    if directory.config["data"] == DEPLOYED:
        raise ConfigError(
            f"privacy: {path} is a deployed run, whose samples lie with its clients; attacks need them: run "
            "the same settings on one machine, and measure that run"
        )
    if directory.config["data"] == GIVEN:
        raise ConfigError(
            f"privacy: the samples of {path} were given in Python and are not here; attacks need them: write "
            "them to a file, run with --data npz:FILE, and measure that run"
        )
    experiment = reopen(OnThisMachine(path), tell, changed_content=tell)
    if not experiment.federation.round:
        raise RunError(f"{path}: no round is done yet; nothing was revealed")
    return experiment


def _chosen(experiment: Experiment, asked: list[int] | None, taken: Any) -> list[int]:
    active = experiment.active
    for client in asked or ():
        if client not in active:
            raise ConfigError(f"--client: {client} is none of the run's clients, 0 to {active[-1]}")
        if not experiment.data.size(client):
            raise ConfigError(f"--client: {client} has no training samples, and so no secrets")
    if asked:
        return sorted(set(asked))
    trained = [client for client in experiment.tested() if experiment.data.size(client)]
    found = [client for client in trained if taken is None or taken[client]][:CLIENTS]
    if not found:
        raise RunError("privacy: no client with training samples took part; nothing was revealed")
    return found


def _audited(experiment: Experiment, found: Leakage, trials: int) -> list[Any]:
    from ..analysis.canaries import audit

    made = [one for one in found.protections if one.epsilon is not None]
    if not made:
        tell("audit: nothing has noise here; give --protect dp:client:noise=… or a run with --dp")
    return [found for one in made for found in audit(experiment, one, trials)]


def _draw(found: Leakage, experiment: Experiment, path: Path) -> None:
    from ..reports.reconstruction_grid import draw_reconstructions

    if not found.pictures or found.measure != "psnr":
        why = next(iter(found.remarks), "the inputs are no images")
        raise ConfigError(f"figure: there is nothing to draw: {why}")
    client, pictures = next(iter(found.pictures.items()))
    tell(f"drawn: {draw_reconstructions(pictures, experiment.task.class_names, client, path)}")


def _as_dict(found: Leakage, audits: list[Any]) -> dict[str, Any]:
    made = {**vars(found), "protections": [], "pictures": None}
    made["protections"] = [
        {"name": one.name, "epsilon": one.epsilon, "refused": one.refused} for one in found.protections
    ]
    for name in ("revealed", "inversion", "membership"):
        made[name] = [asdict(one) for one in made[name]]
    made.pop("pictures")
    return {**made, "audits": [asdict(one) for one in audits]}


def _print(found: Leakage, outcome: Outcome, audits: list[Any]) -> None:
    from .privacy_tables import audit_table

    console = make_console()
    console.print(outcome.title, highlight=False)
    console.print(revealed_table(found))
    if found.inversion:
        console.print(inversion_table(found))
    if found.membership:
        console.print(membership_table(found))
    if audits:
        console.print(audit_table(audits))
    for line in [*protection_lines(found), *found.remarks, *caveats(found)]:
        console.print(line, highlight=False)
