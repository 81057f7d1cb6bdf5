"""A client's answer to one packet: train a leg, or test. Runs at the client, whatever brought the packet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core.answer import ClientState
from ..core.client import run_leg, score_client
from ..core.data import LocalData
from ..core.errors import ProtofedError
from ..core.record import Tree
from ..core.task import Task
from ..engines.base import Job
from .messages import EVALUATE, read_job, tag_of, write_reply, write_score
from .packet import Meta, Packet
from .vault import Request, Tag, Vault, digest


@dataclass(frozen=True)
class Desk:
    """Where one client works: its task, samples and states."""

    task: Task
    client: int
    train: Callable[[], LocalData]
    test: Callable[[], LocalData]
    vault: Vault
    held: Callable[[], LocalData | None] = lambda: None
    keep_replies: bool = True
    tested: Callable[[Job, ClientState | None], None] | None = None  # hears what a test is made with


def respond(desk: Desk, packet: Packet) -> Packet:
    """The reply. What the client can explain comes back as the meta datum "error", not as an exception."""
    head: Meta = {key: packet.meta[key] for key in ("kind", "client", "tag", "session") if key in packet.meta}
    try:
        job = read_job(desk.task, desk.client, packet)
        work = _evaluate if packet.meta["kind"] == EVALUATE else _train
        meta, arrays = work(desk, job, packet)
    except ProtofedError as error:
        return Packet({**head, "error": " ".join(str(error).split())}, {})
    return Packet({**head, **meta}, arrays, str(packet.meta.get("upload", "full")))


def echo(packet: Packet) -> Packet:
    """The tensors back, in the precision asked for: to measure the way, not the work.

    The floats plus `salt`, because Flower does not send again what it holds already."""
    salt = float(packet.meta.get("salt", 0))
    arrays = {name: t + salt if t.is_floating_point() else t for name, t in packet.arrays.items()}
    return Packet({"kind": "echo"}, arrays, str(packet.meta.get("upload", "full")))


def _train(desk: Desk, job: Job, packet: Packet) -> tuple[Meta, Tree]:
    request = _request(packet.meta, tag_of(job), digest(packet.arrays))
    state = desk.vault.open(request)
    stored = desk.vault.reply(request)
    if stored is not None:
        return stored
    reply = run_leg(job.turn, job.leg, state, desk.train(), job.down)
    meta, up = write_reply(reply)
    if desk.keep_replies:
        desk.vault.keep(request, reply.state, meta, up)
    else:
        desk.vault.keep(request, reply.state)
    return meta, up


def _evaluate(desk: Desk, job: Job, packet: Packet) -> tuple[Meta, Tree]:
    state = desk.vault.open(_request(packet.meta, None, ""))
    if desk.tested and job.turn.on == "test":
        desk.tested(job, state)
    return write_score(score_client(job.turn, state, desk.train(), desk.test(), job.down, desk.held()))


def _request(meta: Meta, tag: Tag | None, of: str) -> Request:
    return Request(int(meta["session"]), Tag.read(str(meta["accepted"])), tag, of)
