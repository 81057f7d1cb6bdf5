"""Flower's server app: waits for the clients, then plays the rounds with the common loop."""

from __future__ import annotations

import dataclasses
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from flwr.serverapp import ServerApp

from .. import experiment as experiments
from ..config import Config, read_recipe, resolve
from ..core.data import LocalData
from ..core.errors import ConfigError, ProtofedError
from ..core.task import Task
from ..core.user_files import absolute
from ..engines.checks import SAMPLES
from ..engines.federation import Federation
from ..engines.store import Store
from ..flower.engine import Flower
from ..flower.link import GridLink
from ..flower.reading_mark import ReadingMark
from ..flower.secure_engine import SecureFlower
from ..runs.directory import RunDir
from ..runs.loose import REMEDIES, write_loose
from ..runs.seals import read_whole, there, write_content, write_whole
from ..trust.adversary import refuse_attack
from ..trust.guards import make_guards
from ..trust.secure_settings import check_secure, secure_of
from .agreement import FILE, Member, agree, check_fits, make_task, read_agreement
from .audit import Audit
from .books import Books
from .class_names import near_names
from .keys import keep_keys, keys_of_run
from .measure import DEPLOYED_ROUNDS, SEPARATOR, echo_round
from .own_files import common_files, fingerprints, load_common
from .roster import Roster
from .settings import ServerSettings, read_server
from .status import StatusFile, alive

SESSION = "session.json"
ROUND_TIMEOUT = 120.0  # seconds, where the recipe says nothing: a client that hangs costs so much, once
app = ServerApp()
log = logging.getLogger("protofed")


@app.main()
def main(grid: Any, context: Any) -> None:
    """One run, or the rest of one."""
    _end_with(int(context.run_config["owner"]))
    out = Path(str(context.run_config["run"]))
    settings = read_server(Path(str(context.run_config["server"])))
    status = StatusFile(out, context.run_id, Audit(settings.home, out.name))
    try:
        if context.run_config["measure"]:
            return _measure(grid, settings, out, status, str(context.run_config["measure"]))
        serve(grid, settings, out, status)
    except Exception as error:
        status.end(f"failed: {error if isinstance(error, ProtofedError) else repr(error)}")
        raise
    except BaseException:  # Flower stops the app so
        status.end("stopped")
        raise
    status.end("finished")


def _end_with(owner: int) -> None:
    """End when `protofed server` was killed: left alone, Flower would try for ever to reach its SuperLink."""

    def look() -> None:
        while alive(owner):
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def serve(grid: Any, settings: ServerSettings, out: Path, status: StatusFile) -> None:
    """Wait for the clients, agree, and play all rounds that are left."""
    directory = _begun(out)
    keys = keys_of_run(settings, out, settings.clients)
    secure = deployed_config(settings).trust.secure if directory is None else read_agreement(out).secure
    by_key, fits = not settings.insecure, _fits(settings)
    roster = Roster(grid, settings.clients, by_key, status.roster, keys, fits, secure)
    if directory is None:
        directory = _begin(settings, out, roster)
    agreement = read_agreement(out)
    config = agreement.config_at(settings.home)
    torch.set_num_threads(config.system.threads)
    roster.begin(agreement, config.make_method().needs.peers)
    status.begin(roster.clients, config.rounds.rounds)
    config.transport.check_quorum(config.rounds.participants(len(agreement.members)))
    task = make_task(agreement, config)
    roster.current(len(roster.clients), config.transport.round_timeout)  # all have to say hello again
    data = Remote([member.train for member in agreement.members])
    asked, samples = config.rounds.participants(task.clients), sum(map(data.size, range(len(data))))
    books = Books(out / "released.json")
    guards = make_guards(config.trust, task, asked, sums="elsewhere", samples=samples, books=books)
    engine = _engine(grid, roster, task, data, config, out, status)
    federation = Federation(task, data, engine, config.rounds, "drop", guards)
    if directory.checkpoints.exist and (warning := experiments.restore(directory, federation)):
        log.warning(warning)
    remarks = [*near_names(agreement.members), *task.algorithm.idle(task)]
    for remark in remarks:
        log.warning(remark)
    experiment = experiments.Experiment(config, task, data, federation, remarks=remarks)
    experiments.carry_out(experiment, directory, status.round)


def _engine(
    grid: Any, roster: Roster, task: Task, data: Remote, config: Config, out: Path, status: StatusFile
) -> Flower:
    """Clients behind the grid: a leg begins once there are enough of them, or the time is over."""
    agreement, mark, transport = roster.agreement, ReadingMark(out / "reading.json"), config.transport
    assert agreement is not None
    members = agreement.members
    dense = any(member.dense for member in members)
    link = GridLink(
        grid,
        lambda: roster.current(transport.min_clients, transport.round_timeout),
        lost=roster.lost,
        mark=mark,
    )
    kind: Callable[..., Flower] = Flower
    if config.trust.secure:
        kind = partial(SecureFlower, secure=secure_of(config.trust))
    return kind(
        task,
        data,
        Store(),
        link,
        transport,
        agreement.experiment,
        _session(out),
        watch=status.event,
        sample=lambda client: _sample(members[client], task.dtype),
        counts_samples=not dense,
        tested=None if dense else lambda client: members[client].test,
        mark=mark,
    )


def _measure(grid: Any, settings: ServerSettings, out: Path, status: StatusFile, kind: str) -> None:
    """Echo rounds instead of training: see measure.py."""
    roster = Roster(grid, settings.clients, not settings.insecure, status.roster)
    roster.wait(settings.join_timeout)
    link, clients = GridLink(grid, roster.current), len(settings.clients)
    payload, upload = kind.split(SEPARATOR)
    write_loose(out / "measured.json", echo_round(link, clients, DEPLOYED_ROUNDS, payload, upload))
    status.end("finished")


def _fits(settings: ServerSettings) -> Callable[[Member], None]:
    """What can be said against a client before the others are there: its classes, and the files it lacks."""
    files = cache(lambda: fingerprints(load_common(deployed_config(settings).to_dict())))
    return lambda member: check_fits(member, settings.classes, files())


class Remote:
    """Samples that lie elsewhere: only their numbers are known here."""

    def __init__(self, sizes: list[int]):
        self._sizes = sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def size(self, client: int) -> int:
        return self._sizes[client]

    def train(self, client: int) -> LocalData:
        raise RuntimeError(f"the samples of client {client} are on its own machine")

    test = validation = train


def _sample(member: Member, dtype: torch.dtype) -> LocalData:
    """Two blank samples in the shape of a client's."""
    x = torch.zeros(SAMPLES, *member.shape, dtype=dtype)
    return LocalData(x, torch.zeros(SAMPLES, *(member.shape[1:] if member.dense else ()), dtype=torch.int64))


def deployed_config(settings: ServerSettings) -> Config:
    """The recipe, with what a deployment fixes: every round is a checkpoint, failures are survived."""
    config = resolve({"round_timeout": ROUND_TIMEOUT}, read_recipe(settings.home / settings.recipe))
    refuse_attack(config.trust)
    for file in common_files(config.to_dict()):
        if absolute(file).parent != settings.home:
            raise ConfigError(f"{settings.recipe}: {file} must lie beside server.toml, as at the clients")
    if config.trust.secure:
        _check_secure(settings, config)
    system = dataclasses.replace(config.system, engine="flower", checkpoint_every=1, on_failure="drop")
    return dataclasses.replace(config, system=system)


def _check_secure(settings: ServerSettings, config: Config) -> None:
    """Whether clients of this federation can add up their uploads with secure sums."""
    if settings.insecure:
        raise ConfigError(
            f"{settings.recipe}: secure sums need the clients' keys, and server.toml says insecure = true"
        )
    if config.transport.upload != "full":
        raise ConfigError(
            f"{settings.recipe}: upload {config.transport.upload} has no effect with secure sums, whose "
            "words have the precision of secure_step; leave it out"
        )
    check_secure(config.trust, config.make_method(), config.rounds.participants(len(settings.clients)))


def _begun(out: Path) -> RunDir | None:
    """The directory of an interrupted run, which nobody else writes from now on."""
    if not there(out, FILE):
        return None
    directory = RunDir.open(out)
    directory.lock.take()
    return directory


def _begin(settings: ServerSettings, out: Path, roster: Roster) -> RunDir:
    """A new run, once all clients are there. Its agreement is written last: it says that all is there."""
    members = roster.wait(settings.join_timeout)
    made = agree(secrets.token_hex(8), deployed_config(settings), members, settings.classes)
    # Every mistake shows before the run directory says that a run has begun.
    make_task(made, made.config_at(settings.home))
    directory = RunDir.create(out, made.config, force=True, keep=REMEDIES)
    keep_keys(out, {name: pem.decode() for name, pem in roster.keys.items()})
    write_content(out, FILE, (made.to_json() + "\n").encode())
    return directory


def _session(out: Path) -> int:
    """Grows with every start, so that clients know old messages from new ones."""
    earlier = read_whole(out, SESSION, older=True)["session"] if there(out, SESSION) else 0
    write_whole(out, SESSION, {"session": int(earlier) + 1})
    return int(earlier) + 1
