"""A worker process: what it is told and answers, and what it does with that on an engine of its own.

Messages go through a local pipe between a parent and its own child, so Python's pickle is safe here; tensors
go as NumPy arrays, by value, each once. The task is not sent: every process has it. (Between machines nothing
is pickled: see protofed/flower.)
"""

from __future__ import annotations

import io
import pickle
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any, NoReturn

import torch
from torch import Tensor

from ..core import errors
from ..core.ahead import Ahead
from ..core.answer import Answer, Block, ClientState, Reply, Score
from ..core.data import ClientData
from ..core.errors import ConfigError, ProtofedError
from ..core.lifeline import end_with_parent
from ..core.scoring import ScoredPart, joined
from ..core.task import ClientTurn, Task
from ..core.user_files import caller_line, reason
from .base import Job
from .sequential import Sequential
from .store import LIMIT_BYTES, Store

TASK = "task"


@dataclass(frozen=True)
class TrainOrder:
    """To a worker: train these clients. It has the states of those in `held`; others come with the order, or
    the client has none."""

    jobs: Sequence[Job]
    states: dict[int, ClientState] = field(default_factory=dict)
    held: frozenset[int] = frozenset()


@dataclass(frozen=True)
class TestOrder(TrainOrder):
    """To a worker: test these clients; of those in `parts` only these chunks of their samples."""

    parts: dict[int, range] = field(default_factory=dict)


@dataclass(frozen=True)
class AheadOrder:
    """To a worker that has nothing else to do: these clients, which it has, will be tested. Not answered: it
    stops when the next order comes."""

    turns: Sequence[ClientTurn]


@dataclass(frozen=True)
class TrainedBlock:
    """From a worker: answers in the order of the jobs, or all of them as one block."""

    answers: Sequence[Answer]
    seconds: float  # of the processor


@dataclass(frozen=True)
class Scores:
    """From a worker: scores, or parts of them, in the order of the jobs."""

    scores: Sequence[Score | ScoredPart]
    seconds: Sequence[float]  # of the processor, for each
    chunks: Sequence[int]  # of the whole test of each


@dataclass(frozen=True)
class Raised:
    """From a worker: an exception that no client is to blame for."""

    kind: str
    message: str
    trace: str

    def raise_again(self) -> NoReturn:
        """In the parent: the same error, if it is one that a user can mend."""
        cls = getattr(errors, self.kind, None)
        if isinstance(cls, type) and issubclass(cls, ProtofedError):
            raise cls(self.message)
        raise RuntimeError(f"a worker failed:\n{self.trace}")


def pack(message: Any) -> memoryview:
    """A message as bytes."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(message)
    return buffer.getbuffer()


def unpack(data: bytes, task: Task) -> Any:
    """Inverse of `pack`; `task` is the receiver's own."""
    return _Unpickler(io.BytesIO(data), task).load()


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> str | None:
        return TASK if isinstance(value, Task) else None

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return torch.from_numpy, (value.detach().cpu().contiguous().numpy(),)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, task: Task):
        super().__init__(file)
        self.task = task

    def persistent_load(self, name: str) -> Task:
        return self.task


def work(
    pipe: connection.Connection,
    foreign: list[Any],
    inner: type[Sequential],
    task: Task,
    data: ClientData,
    parent: int,
) -> None:
    """The life of a worker: until its pipe is closed."""
    end_with_parent(signal.SIGKILL, parent)  # where the kernel cannot, the closed pipe ends it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in foreign:
        other.close()
    torch.set_num_threads(1)
    store = Store(LIMIT_BYTES // 4)
    engine = inner(task, data, store)
    engine.ahead = Ahead()
    while True:
        try:
            order = unpack(pipe.recv_bytes(), task)
        except (EOFError, OSError):
            return
        try:
            if isinstance(order, AheadOrder):
                go_ahead(engine, order, pipe.poll)
            else:
                pipe.send_bytes(pack(carry_out(engine, order)))
        except BrokenPipeError:
            return
        except Exception as error:
            pipe.send_bytes(pack(_raised(error)))


def go_ahead(engine: Sequential, order: AheadOrder, called: Callable[[], bool]) -> None:
    """Make what tests will ask for, one client after the other, until there is something else to do."""
    if engine.ahead is None:
        return
    for turn in order.turns:
        if called():
            return
        try:
            engine.ahead.make(turn, engine.store.get(turn.client), engine.data.test(turn.client))
        except Exception:  # nobody waits for this: if it is wrong, the test will say so
            engine.ahead.wanted = False


def _raised(error: Exception) -> Raised:
    """An error in code of the user's own, say a model's forward, names their line."""
    line = None if isinstance(error, ProtofedError) else caller_line(error)
    if line is None:
        return Raised(type(error).__name__, str(error), traceback.format_exc())
    return Raised(ConfigError.__name__, f"{line}: {reason(error)}", traceback.format_exc())


def carry_out(engine: Sequential, order: TrainOrder) -> TrainedBlock | Scores:
    """Do what an order says. Uploads of a cohort go back joined: fewer arrays to write and to check."""
    store = engine.store
    for client, state in order.states.items():
        store.put(client, state)
    for job in order.jobs:
        if job.client not in order.held:
            store.drop(job.client)
    if isinstance(order, TestOrder):
        return _tested(engine, order)
    if engine.ahead is not None:
        engine.ahead.new_round(order.jobs[0].turn.round)
        engine.ahead.forget(*(job.client for job in order.jobs))
    started = time.process_time()  # what else runs on the machine is no part of a client's work
    answers = list(engine.run(order.jobs))
    seconds = time.process_time() - started
    replies = [answer for answer in answers if isinstance(answer, Reply)]
    for reply in replies:
        store.put(reply.client, reply.state)
    if len(replies) == len(answers):
        block = Block.join(order.jobs[0].leg.up, replies, engine.task.sizes)
        return TrainedBlock(answers if block is None else [block], seconds)
    return TrainedBlock(answers, seconds)


def _tested(engine: Sequential, order: TestOrder) -> Scores:
    scores: list[Score | ScoredPart] = []
    seconds, chunks = [], []
    for job in order.jobs:
        started = time.process_time()
        some = order.parts.get(job.client)
        part = engine.part(job, some)
        scores.append(joined([part]) if some is None else part)
        seconds.append(time.process_time() - started + part.seconds_before)
        chunks.append(part.of)
    return Scores(scores, seconds, chunks)
