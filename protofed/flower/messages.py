"""Jobs and answers as packets: the messages that other engines hand over as they are, as text and numbers.

job     kind, client, and the turn (round and leg as a tag, epochs, late); the download as tensors
reply   n, steps, samples, loss; the upload as tensors
score   n, loss, correct by mode, signs; confusion matrices of dense labels as tensors

Both sides read with bounds (core/outside.py): a message comes from another machine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import Any

import torch

from ..core.algorithm import find_leg
from ..core.answer import Reply, Score, Signs, Work
from ..core.errors import MessageError
from ..core.outside import COUNT, Fields, read_json, shown
from ..core.record import Tree
from ..core.task import TESTS, ClientTurn, Task
from ..engines.base import Job
from ..runs.files import finite
from .packet import Meta, Packet
from .vault import Tag

TRAIN, EVALUATE = "train", "evaluate"
LONGEST = 100_000  # characters of text in a test result
MOST_LOSS = 1e12


def tag_of(job: Job) -> Tag:
    """The moment of a job: its round, and the number of its leg."""
    legs = [leg.name for leg in job.turn.task.algorithm.legs]
    return Tag(job.turn.round, legs.index(job.turn.leg))


def write_job(job: Job) -> Meta:
    """What a packet says of a job besides its download."""
    turn = job.turn
    meta: Meta = {"algorithm": turn.task.algorithm.name, "client": turn.client}
    if turn.leg == "eval":
        return {**meta, "kind": EVALUATE, "round": turn.round, "on": turn.on}
    return {**meta, "kind": TRAIN, "tag": str(tag_of(job)), "epochs": turn.epochs, "late": turn.late}


def read_job(task: Task, client: int, packet: Packet) -> Job:
    """The job that a packet brings to this client; MessageError if it is for another, or damaged."""
    meta, name = packet.meta, task.algorithm.name
    if meta.get("kind") not in (TRAIN, EVALUATE):
        raise MessageError(f"unknown kind of message {shown(meta.get('kind'))}")
    if meta.get("algorithm") != name:
        raise MessageError(f"the message is for {shown(meta.get('algorithm'))}, this client runs {name}")
    if meta.get("client") != client:
        raise MessageError(f"the message is for client {shown(meta.get('client'))}, this is client {client}")
    turn = _turn(task, client, meta)
    arrays = {key: tensor.to(task.device) for key, tensor in packet.arrays.items()}
    down = find_leg(task.algorithm, turn.leg).down.of(arrays)
    down.check(task.sizes, f"{name}: download of client {client}")
    return Job(turn, down)


def _turn(task: Task, client: int, meta: Meta) -> ClientTurn:
    values = Fields(meta, "the message")
    if meta["kind"] == EVALUATE:
        return ClientTurn(task, values.whole("round"), "eval", client=client, on=_on(meta))
    tag = Tag.read(values.text("tag"))
    if tag is None or not 0 <= tag.leg < len(task.algorithm.legs):
        raise MessageError(f"the method has no leg {shown(meta['tag'])}")
    leg = task.algorithm.legs[tag.leg].name
    epochs, late = values.whole("epochs"), values.flag("late")
    return ClientTurn(task, tag.round, leg, client=client, epochs=epochs, late=late)


def _on(meta: Meta) -> str:
    """Which samples a test is about; a server of an earlier version does not say."""
    on = str(meta.get("on", "test"))
    if on not in TESTS:
        raise MessageError(f"the message asks for a test on {shown(on)}; expected one of {', '.join(TESTS)}")
    return on


def write_reply(reply: Reply) -> tuple[Meta, Tree]:
    """A reply without the state, which stays at the client."""
    steps, samples, loss = reply.work
    return {"n": reply.n, "steps": steps, "samples": samples, "loss": loss}, reply.up.arrays()


def read_reply(job: Job, packet: Packet) -> Reply:
    """The reply to a job; what its upload holds is checked elsewhere (engines/checks.py)."""
    task, client = job.turn.task, job.client
    values = Fields(packet.meta, f"client {client}: the reply")
    n, steps, samples = (values.whole(key) for key in ("n", "steps", "samples"))
    loss = values.number("loss", -MOST_LOSS, MOST_LOSS)
    if steps and math.isnan(loss):
        raise MessageError(f"client {client}: the reply: loss nan after {steps} steps; training diverged")
    try:
        up = job.leg.up.of({name: tensor.to(task.device) for name, tensor in packet.arrays.items()})
    except MessageError as error:
        raise MessageError(f"{task.algorithm.name}: upload of client {client}: {error}") from error
    return Reply(client, n, up, work=Work(steps, samples, loss))


def write_score(score: Score) -> tuple[Meta, Tree]:
    """A test result. What was not measured is null."""
    told: dict[str, Any] = {"loss": score.loss, "correct": score.correct, "signs": score.signs._asdict()}
    return {"n": score.n, "score": json.dumps(finite(told))}, score.confusion


def read_score(
    client: int, packet: Packet, classes: int, modes: Collection[str], samples: int | None
) -> Score:
    """The test result of a client; MessageError if it cannot be one. `modes`: those that the method predicts
    by; `samples`: test samples with which the client joined, if labels are not of pixels."""
    where = f"test of client {client}"
    meta = Fields(packet.meta, where)
    n = meta.whole("n")
    if samples is not None and n != samples:
        raise MessageError(f"{where}: {n} samples; it joined with {samples}")
    told = Fields(read_json(meta.any("score"), where, LONGEST), where)
    correct = _counts(told.named("correct", len(modes)), n)
    whole = correct.keys() == set(modes) or (samples is None and {"clf"} <= correct.keys() <= set(modes))
    if n and not whole:  # with dense labels a method may predict by fewer modes
        raise MessageError(f"{where}: modes {sorted(correct)}; expected {sorted(modes)}"[:300])
    signs = _signs(told.named("signs", len(Signs._fields)), n, classes)
    if signs.guesses.keys() != correct.keys():
        raise MessageError(f"{where}: guesses of {sorted(signs.guesses)}; expected {sorted(correct)}"[:300])
    _check_tables(packet.arrays, n, correct, classes, where)
    return Score(client, n, correct, told.number("loss", 0, MOST_LOSS), dict(packet.arrays), signs)


def _counts(values: Fields, n: int) -> dict[str, int]:
    return {mode: values.whole(mode, 0, n) for mode in values.values}


def _signs(values: Fields, n: int, classes: int) -> Signs:
    own = values.whole("own", 0, classes)
    guesses = _counts(values.named("guesses", COUNT), n)
    majority, few = values.whole("majority", 0, n), values.whole("few", 0, own)
    return Signs(guesses, majority, own, few, values.number("spread", 0, MOST_LOSS))


def _check_tables(tables: Tree, n: int, correct: dict[str, int], classes: int, where: str) -> None:
    """Confusion matrices are of whole numbers, and add up to what was tested and found right."""
    if tables and tables.keys() != correct.keys():
        raise MessageError(f"{where}: confusion of {sorted(tables)}; expected {sorted(correct)}"[:300])
    for mode, table in tables.items():
        if table.shape != (classes, classes) or table.dtype != torch.int64:
            raise MessageError(f"{where}: confusion {mode} has shape {list(table.shape)}, {table.dtype}")
        if int(table.min()) < 0 or int(table.max()) > n or int(table.sum()) != n:
            raise MessageError(f"{where}: confusion {mode} does not count {n} samples")
        if int(table.trace()) != correct[mode]:
            raise MessageError(
                f"{where}: confusion {mode} has {int(table.trace())} right, not {correct[mode]}"
            )
