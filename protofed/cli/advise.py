"""`protofed advise RUN`: what FedProto's convergence theory says about η, λ and the number of rounds.

With --method: which method suits data, partition and models, or those of a run."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from .. import experiment as experiments
from ..analysis.advise import Advice, advise
from ..core.errors import ConfigError
from ..runs.directory import RunDir
from .output import make_console


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "advise",
        description="Estimates the constants of FedProto's convergence theorems from a short trace of plain "
        "SGD at some clients, and prints the bounds of Corollary 1 and Theorem 2. With --method it answers "
        "another question: which method suits --data, --partition and --models, or those of RUN.",
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, nargs="?", metavar="RUN", help="run directory of a fedproto run")
    parser.add_argument("--method", action="store_true", help="advise a method for this data instead")
    for name in ("data", "partition", "models"):
        parser.add_argument(f"--{name}", help=f"with --method: {name}, as `run` takes it")
    parser.add_argument("--seed", type=int, help="with --method: of the partition")
    parser.add_argument("--slow-links", action="store_true", help="with --method: bytes are scarce")
    parser.add_argument(
        "--clients", type=int, help="clients that are traced (default: 5); or of the partition"
    )
    parser.add_argument("--steps", type=int, default=10, help="SGD steps of a trace (default: 10)")
    parser.add_argument("--eps", type=float, default=1.0, help="ε, target of the mean squared gradient norm")
    parser.add_argument(
        "--every-step", action="store_true", help="print the bound of Eq. 16 at every local step"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Estimate the constants of a run and print what the bounds say."""
    setting_flags = ("data", "partition", "models", "seed")
    if args.method:
        from .advise_method import advise_method

        given = {
            name: value for name in (*setting_flags, "clients") if (value := getattr(args, name)) is not None
        }
        return advise_method(args.run, given, args.slow_links, args.json)
    wrong = [name for name in setting_flags if getattr(args, name) is not None]
    if args.run is None or wrong or args.slow_links:
        what = (
            f"--{wrong[0]}" if wrong else "--slow-links" if args.slow_links else "without a run directory it"
        )
        raise ConfigError(f"advise: {what} needs --method; the bounds are those of a RUN")
    if args.steps < 2:
        raise ConfigError(f"--steps: must be at least 2, got {args.steps}")
    experiment = experiments.reopen(RunDir.open(args.run))
    clients = list(experiment.active)[: max(1, 5 if args.clients is None else args.clients)]
    found = advise(experiment, clients, args.steps, args.eps)
    experiment.federation.engine.close()
    if args.json:
        sys.stdout.write(json.dumps([asdict(one) for one in found]) + "\n")
        return 0
    console = make_console()
    console.print(_table(found))
    if args.every_step:
        console.print("η <  at every local step (Eq. 16):", highlight=False)
        console.print(_steps_table(found))
    method: Any = experiment.task.algorithm
    for line in [*_words(found, experiment.task.opt.lr, method.lam, args.eps), *_departures(method)]:
        console.print(line, highlight=False)
    return 0


def _table(found: list[Advice]) -> Table:
    table = Table(title="FedProto's constants, estimated from traces, and the bounds that follow")
    table.add_column("client")
    for column in (
        "L1",
        "L2",
        "σ²",
        "G",
        "loss, one round (Thm 1)",
        "η <  (Cor. 1), first step",
        heading_of_last(found),
        "λ <  (Cor. 1)",
        "η <  (Thm 2)",
        "λ <  (Thm 2)",
        "rounds T",
    ):
        table.add_column(column, justify="right")
    for one in found:
        c, t = one.constants, one.theorem2
        corollary = (one.eta_corollary1, one.eta_steps[-1], one.lam_corollary1)
        values = (*corollary, t.eta_bound, t.lam_bound, t.rounds)
        table.add_row(
            str(c.client),
            *(f"{v:.3g}" for v in (c.L1, c.L2, c.sigma2, c.G)),
            "–" if one.one_round is None else f"≤ {one.one_round:+.3g}",
            *(_number(v) for v in values),
        )
    return table


def heading_of_last(found: list[Advice]) -> str:
    """Heading over the last bounds of Eq. 16: of a round's steps, or of those that shorter traces have."""
    if all(one.constants.whole_round for one in found):
        return "last step"
    lengths = {len(one.eta_steps) for one in found}  # a small client's round may be shorter than the trace
    return f"last of {'at most ' if len(lengths) > 1 else ''}{max(lengths)} steps"


def _steps_table(found: list[Advice]) -> Table:
    """Rows: local steps e'; columns: clients."""
    table = Table()
    table.add_column("e'")
    for one in found:
        table.add_column(f"client {one.constants.client}", justify="right")
    for step in range(max(len(one.eta_steps) for one in found)):
        bounds = [_number(one.eta_steps[step]) if step < len(one.eta_steps) else "" for one in found]
        table.add_row(str(step) if step else "1/2", *bounds)
    return table


def _words(found: list[Advice], eta: float, lam: float, eps: float) -> list[str]:
    lines = [
        "These are estimates: a trace gives lower bounds of L1, L2, σ² and G, so the true limits are tighter."
    ]
    longest = max(one.constants.iterations for one in found)
    if not all(one.constants.whole_round for one in found):
        lines.append(
            f"The traces are shorter than a round: with --steps {longest} Theorem 1 is there, and all of "
            "Corollary 1."
        )
    etas = [one.theorem2.eta_bound for one in found]
    lams = [one.theorem2.lam_bound for one in found]
    smallest_lam = min(lams)
    if any(e is None for e in etas):
        lines.append(
            f"For ε={eps:g} and λ={lam:g} some clients have no admissible η: λ·L2·G is not below ε. Lower λ "
            f"under {smallest_lam:.3g}, or ask for a larger ε with --eps."
        )
    else:
        allowed = min(e for e in etas if e is not None)
        verdict = "within" if eta < allowed else "above"
        lines.append(f"The run's η={eta:g} is {verdict} the smallest bound of Theorem 2, {allowed:.3g}.")
        if eta >= allowed:
            lines.append(f"Use --lr below {allowed:.3g}, or a larger ε.")
        rounds = [one.theorem2.rounds for one in found]
        if all(r is not None for r in rounds):
            most = math.ceil(max(r for r in rounds if r is not None))
            lines.append(
                f"Then {most} rounds bring every client's mean squared gradient norm below ε={eps:g}."
            )
    if any(one.eta_corollary1 is None for one in found):
        lines.append(
            "Corollary 1 (a decrease from the first local step on) cannot be met by some clients at this "
            "point: their gradients are small against λ·L2·E·G. A smaller λ or fewer local steps would "
            "meet it."
        )
    return lines


def _departures(method: Any) -> list[str]:
    """Where the run's loss is not the theory's."""
    if (method.level, method.distance) == ("class", "l2"):
        return []
    return [
        "The theorems hold for the Euclidean distance of class means; this run's term has "
        f"level={method.level}, distance={method.distance}: take its bounds as a rough guide."
    ]


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"
