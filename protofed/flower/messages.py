"""Jobs and answers as packets: the messages that other engines hand over as they are, as text and numbers.

job     kind, client, and the turn (round and leg as a tag, epochs, late); the download as tensors
reply   n, steps, samples, loss; the upload as tensors
score   n, loss, correct by mode, signs; confusion matrices of dense labels as tensors
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from ..core.algorithm import find_leg
from ..core.answer import Reply, Score, Signs, Work
from ..core.errors import MessageError, ProtofedError
from ..core.record import Tree
from ..core.task import ClientTurn, Task
from ..engines.base import Job
from .packet import Meta, Packet
from .vault import Tag

TRAIN, EVALUATE = "train", "evaluate"
MOST_STEPS = 10**12  # and samples: a count beyond is no count
LONGEST = 100_000  # characters of text in a test result
log = logging.getLogger("protofed")


@contextmanager
def reading(whose: str) -> Iterator[None]:
    """Whatever goes wrong while a client's message is read is refused as that client's fault: it never ends
    the run. The log tells all of it."""
    try:
        yield
    except ProtofedError:
        raise
    except Exception as error:
        log.exception("%s cannot be read", whose)
        raise MessageError(f"{whose} cannot be read ({type(error).__name__})") from error


def tag_of(job: Job) -> Tag:
    """The moment of a job: its round, and the number of its leg."""
    legs = [leg.name for leg in job.turn.task.algorithm.legs]
    return Tag(job.turn.round, legs.index(job.turn.leg))


def write_job(job: Job) -> Meta:
    """What a packet says of a job besides its download."""
    turn = job.turn
    meta: Meta = {"algorithm": turn.task.algorithm.name, "client": turn.client}
    if turn.leg == "eval":
        return {**meta, "kind": EVALUATE, "round": turn.round}
    return {**meta, "kind": TRAIN, "tag": str(tag_of(job)), "epochs": turn.epochs, "late": turn.late}


def read_job(task: Task, client: int, packet: Packet) -> Job:
    """The job that a packet brings to this client; MessageError if it is for another, or damaged."""
    meta, name = packet.meta, task.algorithm.name
    if meta.get("kind") not in (TRAIN, EVALUATE):
        raise MessageError(f"unknown kind of message {meta.get('kind')!r}")
    if meta.get("algorithm") != name:
        raise MessageError(f"the message is for {meta.get('algorithm')}, this client runs {name}")
    if meta.get("client") != client:
        raise MessageError(f"the message is for client {meta.get('client')}, this is client {client}")
    turn = _turn(task, client, meta)
    arrays = {key: tensor.to(task.device) for key, tensor in packet.arrays.items()}
    down = find_leg(task.algorithm, turn.leg).down.of(arrays)
    down.check(task.sizes, f"{name}: download of client {client}")
    return Job(turn, down)


def _turn(task: Task, client: int, meta: Meta) -> ClientTurn:
    try:
        if meta["kind"] == EVALUATE:
            return ClientTurn(task, int(meta["round"]), "eval", client=client)
        tag, epochs, late = Tag.read(str(meta["tag"])), int(meta["epochs"]), bool(meta["late"])
    except (KeyError, ValueError, TypeError) as error:
        raise MessageError(f"the message is damaged ({error!r})") from error
    if tag is None or not 0 <= tag.leg < len(task.algorithm.legs):
        raise MessageError(f"the method has no leg {meta['tag']!r}")
    leg = task.algorithm.legs[tag.leg].name
    return ClientTurn(task, tag.round, leg, client=client, epochs=epochs, late=late)


def write_reply(reply: Reply) -> tuple[Meta, Tree]:
    """A reply without the state, which stays at the client."""
    steps, samples, loss = reply.work
    return {"n": reply.n, "steps": steps, "samples": samples, "loss": loss}, reply.up.arrays()


def read_reply(job: Job, packet: Packet) -> Reply:
    """The reply to a job; what its upload holds is checked elsewhere (engines/checks.py)."""
    task, client, meta = job.turn.task, job.client, packet.meta
    try:
        n, steps, samples = (int(meta[key]) for key in ("n", "steps", "samples"))
        loss = float(meta["loss"])
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise MessageError(f"client {client}: the reply is damaged ({error!r})") from error
    counted = all(0 <= count <= MOST_STEPS for count in (steps, samples))
    if not counted or (steps and not math.isfinite(loss)):
        raise MessageError(f"client {client}: {steps} steps, {samples} samples, loss {loss}")
    try:
        up = job.leg.up.of({name: tensor.to(task.device) for name, tensor in packet.arrays.items()})
    except MessageError as error:
        raise MessageError(f"{task.algorithm.name}: upload of client {client}: {error}") from error
    return Reply(client, n, up, work=Work(steps, samples, loss))


def write_score(score: Score) -> tuple[Meta, Tree]:
    """A test result."""
    signs = json.dumps(score.signs)
    meta: Meta = {"n": score.n, "loss": score.loss, "correct": json.dumps(score.correct), "signs": signs}
    return meta, score.confusion


def read_score(client: int, packet: Packet, classes: int, modes: Collection[str], most: int | None) -> Score:
    """The test result of a client; MessageError if it cannot be one. `modes`: those that the method predicts
    by; `most`: test samples with which the client joined, if labels are not of pixels."""
    if len(str(packet.meta.get("correct"))) + len(str(packet.meta.get("signs"))) > LONGEST:
        raise MessageError(f"test of client {client}: more than {LONGEST:,} characters")
    try:
        n, loss = int(packet.meta["n"]), float(packet.meta["loss"])
        correct = {str(mode): int(count) for mode, count in json.loads(str(packet.meta["correct"])).items()}
        guesses, majority, own, few, spread = json.loads(str(packet.meta["signs"]))
        guesses = {str(mode): int(count) for mode, count in guesses.items()}
        signs = Signs(guesses, int(majority), int(own), int(few), float(spread))
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise MessageError(f"test of client {client}: the reply is damaged ({error!r})"[:300]) from error
    whole = correct.keys() == set(modes) or (most is None and {"clf"} <= correct.keys() <= set(modes))
    if n and not whole:  # with dense labels a method may predict by fewer modes
        told = f"{sorted(correct)}; expected {sorted(modes)}"
        raise MessageError(f"test of client {client}: modes {told}"[:300])
    if most is not None and n > most:
        raise MessageError(f"test of client {client}: {n} samples; it joined with {most}")
    if n < 0 or not all(0 <= count <= n for count in correct.values()):
        raise MessageError(f"test of client {client}: {correct} correct of {n}")
    sound = guesses.keys() == correct.keys() and 0 <= signs.few <= signs.own <= classes
    if not (sound and all(0 <= count <= n for count in (*guesses.values(), signs.majority))):
        raise MessageError(f"test of client {client}: {signs} cannot be, of {n} samples")
    for mode, table in packet.arrays.items():
        if table.shape != (classes, classes):
            raise MessageError(f"test of client {client}: confusion {mode} has shape {list(table.shape)}")
    return Score(client, n, correct, loss, dict(packet.arrays), signs)
