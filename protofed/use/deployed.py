"""A deployed run in use: the server has its state, a client its own model and what came down last."""

from __future__ import annotations

import os
from pathlib import Path

from torch import Tensor

from ..config import resolve
from ..core.algorithm import find_leg
from ..core.checksums import strip_checksum
from ..core.client import kept_names
from ..core.errors import RunError
from ..data.inputs import InputRule
from ..deploy.agreement import make_task, read_agreement
from ..deploy.place import Place, make_place_task
from ..deploy.settings import ClientSettings, read_client
from ..deploy.site import Site
from ..deploy.tested import FILE, read_tested
from ..engines.store import Store
from ..runs.about import AboutRun
from ..runs.directory import RunDir
from ..runs.input_rules import read_rules
from ..runs.kept_files import settings_with_kept
from ..runs.outcome import Outcome
from ..runs.seals import there
from .opened import Opened, check_finished, first_state, on_cpu

AGREEMENT, CLIENT = "agreement.json", "client.toml"


def is_server_run(path: Path) -> bool:
    """Whether this is the run directory of a deployed run's server."""
    return (path / "config.json").exists() and there(path, AGREEMENT)


def is_site(path: Path) -> bool:
    """Whether this is a client's folder, or one of the runs that it keeps there."""
    return _home(path) is not None


def open_server(outcome: Outcome, unfinished: bool) -> Opened:
    """The server's state. Models are here only where the method keeps nothing at the clients."""
    check_finished(outcome, unfinished)
    directory = RunDir.open(outcome.path)
    agreement = read_agreement(outcome.path)
    task = make_task(agreement, on_cpu(resolve(settings_with_kept(directory.config, outcome.path))))
    found = directory.checkpoints.load(type(first_state(task)), Store())
    names = tuple(member.name for member in agreement.members)

    def missing(client: int) -> str:
        if not kept_names(task, task.group_of(client)):
            return ""
        return f"the model of client {names[client]} lies at its own site: load the folder of its {CLIENT}"

    def nothing(client: int) -> Tensor:
        raise RunError(
            f"a server knows no samples of its clients: predict at {names[client]}, in the folder of its "
            f"{CLIENT}, or call model({names[client]!r}) yourself"
        )

    def rule(client: int) -> InputRule:
        return InputRule(agreement.members[client].shape)

    down = task.algorithm.broadcast
    parts = (lambda turn: down(found.state, turn), rule, nothing, missing)
    return Opened(task, found.round, names, found.state, {}, *parts, predicts=False)


def open_site(path: Path) -> tuple[Outcome, Opened]:
    """A client's own model, as of its last test in the newest run of its folder, or in the run named."""
    home = _home(path)
    assert home is not None
    settings = read_client(home)
    run = path if (path / AGREEMENT).exists() else _newest(settings)
    text = strip_checksum((run / AGREEMENT).read_bytes(), run / AGREEMENT, run.name).decode()
    agreement = Place.of_json(text)
    Site(settings)  # runs the files that client.toml lists
    config = agreement.config_at(settings.home, [os.path.basename(file) for file in settings.imports])
    client, names = agreement.client, agreement.names
    task = make_place_task(agreement, on_cpu(config))
    last = read_tested(run / settings.name)
    rule = read_rules(run / settings.name)[0]
    down = find_leg(task.algorithm, "eval").down.of(last.down)

    def missing(asked: int) -> str:
        return "" if asked == client else f"this is the folder of {settings.name}; {names[asked]} has its own"

    opened = Opened(
        task,
        last.round,
        names,
        None,
        {client: last.state},
        lambda turn: down,
        lambda asked: rule,
        lambda asked: last.counts,
        missing,
        alone=client,
    )
    return Outcome([], agreement.config, AboutRun.of_task(task)), opened


def _home(path: Path) -> Path | None:
    """The folder of client.toml; of a run that a client keeps, some folder above."""
    if (path / CLIENT).exists():
        return path
    if not (path / AGREEMENT).exists() or (path / "config.json").exists():
        return None
    return next((folder for folder in path.parents if (folder / CLIENT).exists()), None)


def _newest(settings: ClientSettings) -> Path:
    found = list((settings.home / settings.state).glob(f"*/{settings.name}/{FILE}"))
    if not found:
        raise RunError(f"{settings.home}: no run has tested this client yet: there is no model to use")
    return max(found, key=lambda file: file.stat().st_mtime).parent.parent
