"""Flower's client app: one message, one answer. Flower starts a new process for each message, so all
that must last is on disk: client.toml, the agreement, and the vault with this client's states."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import Message
from flwr.clientapp import ClientApp

from ..core.errors import MessageError, ProtofedError
from ..core.version import VERSION
from ..flower.codec import decode, encode
from ..flower.packet import Meta, Packet
from .notices import tell
from .settings import ClientSettings, read_client

if TYPE_CHECKING:
    from .place import Place

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

app = ClientApp()
PEERS = 1_000_000  # characters of the names of all clients


@app.query()
@app.train()
@app.evaluate()
def handle(message: Any, context: Any) -> Any:
    """What Flower calls with each message."""
    settings = read_client(Path(str(context.node_config["site"])))
    try:
        packet = decode(message.content)
    except MessageError as error:  # another schema, for example: told at both ends
        tell(settings.home, f"a message of the server is refused: {error}")
        return Message(encode(Packet({"kind": "hello", "error": str(error)}, {})), reply_to=message)
    return Message(encode(answer(settings, packet)), reply_to=message)


def answer(settings: ClientSettings, packet: Packet) -> Packet:
    """What the client can explain goes back as the meta datum "error"."""
    kind = packet.meta.get("kind")
    try:
        if kind == "hello":
            _check_version(settings, packet.meta.get("protofed"))
            _check_peers(settings, packet.meta.get("peers"))
            return Packet({"kind": "hello", "protofed": VERSION, "member": _hello(settings)}, {})
        if kind == "refused":
            tell(settings.home, f"refused by the server: {packet.meta.get('reason')}; asked again soon")
            return Packet({"kind": "refused"}, {})
        if kind == "agreement":
            return Packet(_store(settings, str(packet.meta["agreement"])), {})
        if kind == "echo":
            return _echo(packet)
        with _one_at_a_time(settings):
            return _in_sum(settings, packet) if kind == "secure" else _work(settings, packet)
    except ProtofedError as error:
        return Packet({"kind": str(kind), "error": " ".join(str(error).split())}, {})


def _check_version(settings: ClientSettings, theirs: object) -> None:
    if theirs != VERSION:
        told = f"{theirs}" if theirs else "an earlier version"
        what = f"client {settings.name} has protofed {VERSION}, the server {told}"
        tell(settings.home, f"{what}: install the same on both")
        raise MessageError(f"{what}: install the same on both")


def _check_peers(settings: ClientSettings, names: object) -> None:
    """In a run with secure sums: the keys of the others must be here before it begins."""
    if names is None:
        if settings.secure:
            raise MessageError(f"client {settings.name} takes part only in runs with secure sums")
        return
    from ..core.outside import read_json
    from .peers import check_peers
    from .settings import check_name

    listed = read_json(names, "hello", PEERS)
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise MessageError("hello: peers: expected a list of names")
    for name in listed:
        check_name(name, "hello: peers")
    try:
        check_peers(settings, listed)
    except ProtofedError as error:
        tell(settings.home, str(error))
        raise


def _hello(settings: ClientSettings) -> str:
    import dataclasses

    from .site import Site

    return json.dumps(dataclasses.asdict(Site(settings).member()))


def _echo(packet: Packet) -> Packet:
    from ..flower.respond import echo

    return echo(packet)


def _store(settings: ClientSettings, text: str) -> Meta:
    from ..core.checksums import add_checksum
    from ..runs.files import write_atomic
    from .place import Place
    from .settings import check_name

    agreement = Place.of_json(text)
    for name in agreement.peers:
        check_name(name, "the agreement: peers")
    if agreement.member.name != settings.name:
        raise MessageError(f"the agreement is for {agreement.member.name!r}, this is {settings.name}")
    path = _path(settings, agreement.experiment)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, add_checksum(text.encode(), agreement.experiment))
    _forget_old_runs(settings, path.parent)
    return {"kind": "agreement", "experiment": agreement.experiment}


def _forget_old_runs(settings: ClientSettings, current: Path) -> None:
    """Keep the states of this run and of those used last before it."""
    others = [path.parent for path in current.parent.glob("*/agreement.json") if path.parent != current]
    others.sort(key=_last_use, reverse=True)
    for old in others[settings.keep_runs - 1 :]:
        shutil.rmtree(old, ignore_errors=True)


def _last_use(run: Path) -> float:
    return max(path.stat().st_mtime for path in [run / "agreement.json", *run.glob("*/journal.json")])


@contextmanager
def _one_at_a_time(settings: ClientSettings) -> Iterator[None]:
    """A client that was too late may still train when it is asked the next: a second process waits for the
    first, so that no two write to the same states."""
    if fcntl is None:
        yield
        return
    with open(settings.home / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _work(settings: ClientSettings, packet: Packet) -> Packet:
    """Train or test. Torch is imported here, not for a hello that goes wrong."""
    import dataclasses

    import torch

    from ..core.answer import ClientState
    from ..engines.base import Job
    from ..flower.respond import Desk, respond
    from ..flower.vault import Vault
    from .peers import secure_desk
    from .place import make_place_task
    from .site import Site
    from .tested import keep_tested

    path, agreement = _agreement(settings, packet)
    site = Site(settings)
    allowed = [os.path.basename(file) for file in settings.imports]
    config = agreement.config_at(settings.home, allowed)
    torch.set_num_threads(config.system.threads)
    client, task = agreement.client, make_place_task(agreement, config)
    vault = Vault(path.parent.parent, agreement.experiment, settings.name)
    secure = secure_desk(settings, agreement, vault.path)
    parts = site.parts(agreement.classes, task.dtype)

    def tested(job: Job, state: ClientState | None) -> None:
        keep_tested(vault.path, job, state, parts[0], site.dataset.rule())

    desk = Desk(task, client, lambda: parts[0], lambda: parts[1], vault, tested=tested, secure=secure)
    return respond(dataclasses.replace(desk, max_norm=config.transport.max_norm), packet)


def _in_sum(settings: ClientSettings, packet: Packet) -> Packet:
    """A step of a secure sum, which needs neither samples nor model."""
    from ..flower.respond import head_of
    from .peers import secure_desk

    path, agreement = _agreement(settings, packet)
    desk = secure_desk(settings, agreement, path.parent / settings.name)
    if desk is None:
        raise MessageError("this run has no secure sums")
    try:
        return Packet({**head_of(packet), **desk.step(packet)}, {})
    except ProtofedError as error:
        return Packet({**head_of(packet), "error": " ".join(str(error).split())}, {})


def _agreement(settings: ClientSettings, packet: Packet) -> tuple[Path, Place]:
    """Where the agreement of the packet's run lies, and what it says."""
    from ..core.checksums import strip_checksum
    from .place import Place

    experiment = str(packet.meta.get("experiment"))
    path = _path(settings, experiment)
    if not path.exists():
        raise MessageError(f"client {settings.name} has no agreement of run {experiment}")
    agreement = Place.of_json(strip_checksum(path.read_bytes(), path, experiment).decode())
    return path, agreement


def _path(settings: ClientSettings, experiment: str) -> Path:
    if not re.fullmatch(r"[\w-]{1,80}", experiment):
        raise MessageError(f"{experiment!r} is no name of a run")
    return settings.home / settings.state / experiment / "agreement.json"
