"""A client's answer to one packet: train a leg, or test. Runs at the client, whatever brought the packet."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.algorithm import Leg
from ..core.client import Outcome, run_leg
from ..core.data import LocalData
from ..core.errors import MessageError, ProtofedError
from ..core.record import Record, Tree
from ..core.task import Task, Turn
from ..metrics.scores import Score, score_client
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
    keep_replies: bool = True


def respond(desk: Desk, packet: Packet) -> Packet:
    """The reply. What the client can explain comes back as the meta datum "error", not as an exception."""
    head: Meta = {key: packet.meta[key] for key in ("kind", "client", "tag", "session") if key in packet.meta}
    try:
        _check(desk, packet.meta)
        work = {"train": _train, "evaluate": _evaluate}[str(packet.meta["kind"])]
        meta, arrays = work(desk, packet)
    except ProtofedError as error:
        return Packet({**head, "error": " ".join(str(error).split())}, {})
    return Packet({**head, **meta}, arrays, str(packet.meta.get("upload", "full")))


def echo(packet: Packet) -> Packet:
    """The tensors back, in the precision asked for: to measure the way, not the work.

    The floats plus `salt`, because Flower does not send again what it holds already."""
    salt = float(packet.meta.get("salt", 0))
    arrays = {name: t + salt if t.is_floating_point() else t for name, t in packet.arrays.items()}
    return Packet({"kind": "echo"}, arrays, str(packet.meta.get("upload", "full")))


def _check(desk: Desk, meta: Meta) -> None:
    name = desk.task.algorithm.name
    if meta.get("kind") not in ("train", "evaluate"):
        raise MessageError(f"unknown kind of message {meta.get('kind')!r}")
    if meta.get("algorithm") != name:
        raise MessageError(f"the message is for {meta.get('algorithm')}, this client runs {name}")
    if meta.get("client") != desk.client:
        raise MessageError(f"the message is for client {meta.get('client')}, this is client {desk.client}")


def _train(desk: Desk, packet: Packet) -> tuple[Meta, Tree]:
    meta = packet.meta
    tag = Tag.read(str(meta["tag"]))
    if tag is None or not 0 <= tag.leg < len(desk.task.algorithm.legs):
        raise MessageError(f"the method has no leg {meta['tag']!r}")
    leg = desk.task.algorithm.legs[tag.leg]
    request = _request(meta, tag, digest(packet.arrays))
    state = desk.vault.open(request)
    stored = desk.vault.reply(request)
    if stored is not None:
        return stored
    turn = Turn(desk.task, tag.round, leg.name, desk.client, int(meta["epochs"]), bool(meta["late"]))
    outcome = run_leg(turn, leg, state, desk.train(), _download(desk, leg, packet))
    reply, up = _reply(outcome), outcome.up.arrays()
    if desk.keep_replies:
        desk.vault.keep(request, outcome.state, reply, up)
    else:
        desk.vault.keep(request, outcome.state)
    return reply, up


def _evaluate(desk: Desk, packet: Packet) -> tuple[Meta, Tree]:
    meta = packet.meta
    leg = Leg("eval", desk.task.algorithm.legs[0].down)
    state = desk.vault.open(_request(meta, None, ""))
    turn = Turn(desk.task, int(meta["round"]), "eval", desk.client)
    score = score_client(turn, state, desk.train(), desk.test(), _download(desk, leg, packet))
    reply: Meta = {"n": score.n, "loss": score.loss, "correct": json.dumps(score.correct)}
    return reply, score.confusion


def read_score(client: int, packet: Packet, classes: int) -> Score:
    """The server's reading of a test reply."""
    try:
        n, loss = int(packet.meta["n"]), float(packet.meta["loss"])
        correct = {str(mode): int(count) for mode, count in json.loads(str(packet.meta["correct"])).items()}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise MessageError(f"test of client {client}: the reply is damaged ({error!r})") from error
    if n < 0 or not all(0 <= count <= n for count in correct.values()):
        raise MessageError(f"test of client {client}: {correct} correct of {n}")
    for mode, table in packet.arrays.items():
        if table.shape != (classes, classes):
            raise MessageError(f"test of client {client}: confusion {mode} has shape {list(table.shape)}")
    return Score(client, n, correct, loss, dict(packet.arrays))


def _request(meta: Meta, tag: Tag | None, of: str) -> Request:
    return Request(int(meta["session"]), Tag.read(str(meta["accepted"])), tag, of)


def _download(desk: Desk, leg: Leg, packet: Packet) -> Record:
    down = leg.down.of({name: tensor.to(desk.task.device) for name, tensor in packet.arrays.items()})
    down.check(desk.task.sizes, f"{desk.task.algorithm.name}: download of client {desk.client}")
    return down


def _reply(outcome: Outcome) -> dict[str, Any]:
    work = outcome.work
    return {"n": outcome.n, "steps": work.steps, "samples": work.samples, "loss": work.loss}
