"""`protofed onboard RUN`: a new client with a new architecture joins a finished run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from rich.table import Table

from .. import experiment as experiments
from ..core.data import LocalData
from ..core.errors import ConfigError, RunError
from ..core.rng import numpy_generator
from ..data import load
from ..data.base import Rows, Split
from ..data.loader import Loader
from ..onboarding import Newcomer, as_dict, join, onboard
from ..runs.directory import RunDir
from .output import make_console
from .parser import add_import


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "onboard",
        description="Train a newcomer with the run's global prototypes, and beside it alone. The newcomer "
        "is one of the clients that the run held out (`protofed run … --newcomers 2`), or brings its own "
        "data (--data).",
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--models", help="the newcomer's model (default: the run's first)")
    parser.add_argument("--epochs", type=int, default=10, help="epochs of fine-tuning (default: 10)")
    parser.add_argument("--client", type=int, help="one held-out client (default: all of them)")
    parser.add_argument(
        "--data", help="the newcomer's own data, such as npz:PATH, instead of a held-out client"
    )
    add_import(parser)
    parser.add_argument("--samples", type=int, help="with --data: training samples to use (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Train a newcomer from what the server knows and print how good it gets."""
    directory = RunDir.open(args.run)
    if directory.summary is None:
        raise RunError(f"{args.run} is not finished; finish it with `protofed resume {args.run}`")
    if args.epochs < 1:
        raise ConfigError(f"--epochs: must be at least 1, got {args.epochs}")
    if args.samples is not None and args.samples < 1:
        raise ConfigError(f"--samples: must be at least 1, got {args.samples}")
    experiment = experiments.reopen(directory)
    models = args.models or experiment.task.groups[0].name
    if args.data:
        found = [_from_data(experiment, args.data, args.samples, models, args.epochs)]
    else:
        clients = _held_out(experiment, args.client)
        found = [onboard(experiment, client, models, args.epochs) for client in clients]
    experiment.federation.engine.close()
    if args.json:
        sys.stdout.write(json.dumps([as_dict(one) for one in found]) + "\n")
    else:
        make_console().print(_table(found, args.epochs))
    return 0


def _held_out(experiment: experiments.Experiment, client: int | None) -> list[int]:
    active, total = len(experiment.active), experiment.task.clients
    if client is not None:
        return [client]
    if active == total:
        raise ConfigError(
            "onboard: the run held no client out; run it with --newcomers 1, or bring data with --data"
        )
    return list(range(active, total))


def _from_data(
    experiment: experiments.Experiment, data: str, samples: int | None, models: str, epochs: int
) -> Newcomer:
    dataset = load(data)
    if dataset.num_classes > experiment.task.C:
        raise ConfigError(f"onboard: {data} has {dataset.num_classes} classes, the run {experiment.task.C}")
    train, test = np.flatnonzero(~dataset.test), np.flatnonzero(dataset.test)
    if samples is not None and samples < len(train):
        chosen = numpy_generator(experiment.config.seed, "onboard").choice(len(train), samples, replace=False)
        train = train[np.sort(chosen)]
    split = Split(Rows.of([train]), Rows.of([test]))
    loader = Loader(dataset, split, experiment.task.dtype, torch.device(experiment.config.system.device))
    parts = LocalData(*loader.train(0)), LocalData(*loader.test(0))
    return join(experiment, *parts, models, epochs, experiment.task.clients)


def _table(found: list[Newcomer], epochs: int) -> Table:
    table = Table(title=f"newcomers after {epochs} epochs: test accuracy (%)", caption=_caption(found))
    for column in ("client", "samples", "classes", "mode"):
        table.add_column(column)
    for column in ("untrained", "alone (clf)", "with the run", "gain"):
        table.add_column(column, justify="right")
    for one in found:
        who = (str(one.client), str(one.train_samples), str(one.classes))
        for mode in one.joined:
            table.add_row(*who, mode, *_numbers([one], mode))
            who = ("", "", "")
        table.add_section()
    if len(found) > 1:
        for number, mode in enumerate(found[0].joined):
            table.add_row("" if number else "mean", "", "", mode, *_numbers(found, mode))
    return table


def _caption(found: list[Newcomer]) -> str:
    return f"model of the newcomers: {found[0].model}; alone: the same start trained without the run"


def _numbers(found: list[Newcomer], mode: str) -> list[str]:
    """Means over newcomers: untrained, alone (by classifier), with the run, and the gain."""
    before, joined = (mean(one.before[mode] for one in found), mean(one.joined[mode] for one in found))
    alone = mean(one.alone["clf"] for one in found)
    return [f"{before:.1f}", f"{alone:.1f}", f"{joined:.1f}", f"{joined - alone:+.1f}"]
