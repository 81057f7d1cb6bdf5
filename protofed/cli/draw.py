"""`protofed draw KIND RUN…`: figures of the papers that look into models: entropy maps, clusters."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.errors import ConfigError
from ..data.split_summary import domain_name, owner_name
from ..experiment import Experiment, reopen
from ..reports import paper
from ..reports.figures import check_figure
from ..reports.inside import OnThisMachine
from ..runs.directory import RunDir
from .output import tell

KINDS = ("entropy", "clusters")


def add(commands: Any, argv: Sequence[str]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "draw",
        description="entropy: segmentations and entropy maps of test images, a column for each run "
        "(ProtoMargin, Figs. 6 and S4). clusters: t-SNE of the samples of one class with the prototypes of "
        "clients and server, sized by their weights (FedPLCC, Fig. 2).",
        allow_abbrev=False,
    )
    parser.add_argument("kind", choices=KINDS, help="what to draw")
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run directories")
    parser.add_argument("-o", "--out", type=Path, help="file: .png, .svg or .pdf (default: KIND.png)")
    parser.add_argument("--names", nargs="+", metavar="NAME", help="of the runs (default: their folders)")
    parser.add_argument(
        "--images", type=int, default=2, metavar="N", help="entropy: test images (default: 2)"
    )
    parser.add_argument(
        "--client", type=int, default=0, metavar="K", help="entropy: whose model, where each has its own"
    )
    parser.add_argument("--class", type=int, default=0, dest="cls", metavar="C", help="clusters: its number")
    parser.add_argument(
        "--points", type=int, default=400, metavar="N", help="clusters: samples in all (default: 400)"
    )
    parser.set_defaults(function=command)


def command(args: argparse.Namespace) -> int:
    """Reopen the runs, draw, and say where."""
    out = args.out or Path(f"{args.kind}.png")
    names = args.names or [run.resolve().name for run in args.runs]
    if len(names) != len(args.runs):
        raise ConfigError(f"--names: {len(names)} names for {len(args.runs)} runs; give one each")
    if len(set(names)) < len(names):
        raise ConfigError("--names: two runs have the same name; give one each")
    for flag in ("images", "points"):
        if getattr(args, flag) < 1:
            raise ConfigError(f"--{flag}: must be at least 1, got {getattr(args, flag)}")
    check_figure(out, "out")
    experiments = dict(zip(names, (_reopened(run) for run in args.runs)))
    drawn = (_entropy if args.kind == "entropy" else _clusters)(experiments, out, args)
    tell(f"drawn: {drawn}")
    return 0


def _reopened(path: Path) -> Experiment:
    experiment = reopen(OnThisMachine(RunDir.open(path).path), tell, changed_content=tell)
    if not experiment.federation.round:
        raise ConfigError(f"{path}: no round is done yet; nothing to draw")
    return experiment


def _entropy(experiments: dict[str, Experiment], out: Path, args: argparse.Namespace) -> Path:
    from ..analysis.segmentations import maps_of, shared_images
    from ..reports.entropy_grid import draw_grid

    for name, experiment in experiments.items():
        if args.client not in experiment.active:
            raise ConfigError(
                f"--client: {name} has no client {args.client}; its last is {experiment.active[-1]}"
            )
    images = shared_images(list(experiments.values()), args.images)
    maps = {name: maps_of(experiment, images.x, args.client) for name, experiment in experiments.items()}
    return draw_grid(images, maps, out)


def _clusters(experiments: dict[str, Experiment], out: Path, args: argparse.Namespace) -> Path:
    from ..analysis.one_class import one_class
    from ..reports.clusters import cluster_chart

    found = {name: one_class(experiment, args.cls, args.points) for name, experiment in experiments.items()}
    titles = {name: f"{name}, class {one.task.class_names[args.cls]}" for name, one in experiments.items()}
    parts = [part for one in found.values() for part in (one.samples, one.local)]
    holders = sorted({client for part in parts for client in part.client})
    clients = {client: _client_name(list(experiments.values()), client) for client in holders}
    charts = [cluster_chart(f"clusters-{name}", titles[name], one, clients) for name, one in found.items()]
    return paper.write(charts, [out])[0]


def _client_name(experiments: Sequence[Experiment], client: int) -> str:
    """Its number, with its owner or domain where that has a name, the same in all runs that it is in."""
    found = {
        owner_name(one.dataset, one.split, client) or domain_name(one.dataset, one.split, client)
        for one in experiments
        if one.dataset is not None and one.split is not None and client < one.split.clients
    }
    name = found.pop() if len(found) == 1 else ""
    return f"client {client} ({name})" if name else f"client {client}"
