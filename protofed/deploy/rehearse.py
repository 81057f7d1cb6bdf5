"""`protofed deploy rehearse`: the federation of a directory in this process, one client after the other.

A check before machines are involved, and the reference for a deployment: with the same data, models and
recipe the numbers are the same.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from .. import experiment as experiments
from ..core.data import ClientData
from ..core.task import Task
from ..data.federated import OwnData
from ..engines.federation import Federation
from ..engines.sequential import Sequential
from ..engines.store import Store
from ..engines.transport import Transport
from ..trust.guards import make_guards
from .agreement import agree, make_task
from .class_names import near_names
from .server_app import deployed_config
from .settings import read_client, read_server
from .site import Site


def rehearse(folder: Path) -> experiments.Experiment:
    """The experiment, ready to play. `folder` holds server/ and clients/ as `deploy init` writes them."""
    settings = read_server(folder / "server")
    sites = [Site(read_client(folder / "clients" / name)) for name in settings.clients]
    config = deployed_config(settings)
    agreement = agree("rehearsal", config, [site.member() for site in sites], settings.classes)
    made = agreement.config_at(settings.home)
    task = make_task(agreement, made, [member.model for member in agreement.members])
    parts = [site.parts(agreement.classes, task.dtype) for site in sites]
    data = OwnData([train for train, _ in parts], [test for _, test in parts])
    made = dataclasses.replace(made, system=dataclasses.replace(made.system, engine="sequential"))
    samples = sum(member.train for member in agreement.members)
    asked = made.rounds.participants(task.clients)
    guards = make_guards(made.trust, task, asked, sums="masked", samples=samples)
    engine = _engine(task, data, made.transport.upload)
    federation = Federation(task, data, engine, made.rounds, guards=guards)
    remarks = [*near_names(agreement.members), *_idle(made.transport), *task.algorithm.idle(task)]
    return experiments.Experiment(made, task, data, federation, remarks=remarks)


def _engine(task: Task, data: ClientData, upload: str) -> Sequential:
    """Clients one after the other; coarser uploads as their messages would bring them."""
    if upload == "full":
        return Sequential(task, data, Store())
    from .precision import Coarse  # needs Flower

    engine = Coarse(task, data, Store())
    engine.upload = upload
    return engine


def _idle(transport: Transport) -> list[str]:
    """Settings of the recipe that only a deployment has a use for."""
    names = ("max_norm", "min_clients")
    said = ", ".join(f"{name} {value}" for name, value in transport.changed.items() if name in names)
    return [f"{said}: of no effect in a rehearsal, which has no messages"] if said else []
