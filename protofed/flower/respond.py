"""A client's answer to one packet: train a leg, or test. Runs at the client, whatever brought the packet."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.answer import ClientState
from ..core.client import run_leg, score_client
from ..core.data import LocalData
from ..core.errors import ProtofedError
from ..core.record import Nothing, Tree
from ..core.task import Task
from ..engines.base import Job
from .messages import EVALUATE, read_job, tag_of, write_reply, write_score
from .packet import Meta, Packet
from .vault import Request, Tag, Vault, digest

if TYPE_CHECKING:
    from .secure_desk import SecureDesk


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
    secure: SecureDesk | None = None  # uploads leave in secure sums alone
    max_norm: float = math.inf


def respond(desk: Desk, packet: Packet) -> Packet:
    """The reply. What the client can explain comes back as the meta datum "error", not as an exception."""
    head = head_of(packet)
    try:
        job = read_job(desk.task, desk.client, packet)
        work = _evaluate if packet.meta["kind"] == EVALUATE else _train
        meta, arrays = work(desk, job, packet)
    except ProtofedError as error:
        return Packet({**head, "error": " ".join(str(error).split())}, {})
    return Packet({**head, **meta}, arrays, str(packet.meta.get("upload", "full")))


def head_of(packet: Packet) -> Meta:
    """What a reply repeats of the packet, so that the server knows what it answers."""
    named = ("kind", "client", "tag", "session", "step", "attempt")
    return {key: packet.meta[key] for key in named if key in packet.meta}


def echo(packet: Packet) -> Packet:
    """The tensors back, in the precision asked for: to measure the way, not the work.

    The floats plus `salt`, because Flower does not send again what it holds already."""
    salt = float(packet.meta.get("salt", 0))
    arrays = {name: t + salt if t.is_floating_point() else t for name, t in packet.arrays.items()}
    return Packet({"kind": "echo"}, arrays, str(packet.meta.get("upload", "full")))


def _train(desk: Desk, job: Job, packet: Packet) -> tuple[Meta, Tree]:
    request = _request(packet.meta, tag_of(job), digest(packet.arrays))
    state = desk.vault.open(request)
    meta, up = desk.vault.reply(request) or _trained(desk, job, request, state)
    if desk.secure is None:
        return meta, up
    if job.leg.up is Nothing:  # nothing that could be added: its figures stay here
        return {**meta, "steps": 0, "samples": 0, "loss": math.nan}, up
    return desk.secure.upload(job, packet.meta, meta, up, desk.max_norm)


def _trained(desk: Desk, job: Job, request: Request, state: ClientState | None) -> tuple[Meta, Tree]:
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
