"""What runs in a worker process: it waits for jobs, carries them out on an engine of its own, and answers."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from multiprocessing import connection
from typing import Any

import torch

from ..core.answer import Block, Reply
from ..core.data import ClientData
from ..core.task import Task
from . import wire
from .sequential import Sequential
from .store import LIMIT_BYTES, Store


def work(
    pipe: connection.Connection,
    foreign: list[Any],
    inner: type[Sequential],
    task: Task,
    data: ClientData,
    parent: int,
) -> None:
    """The life of a worker: until its pipe is closed."""
    _die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in foreign:
        other.close()
    torch.set_num_threads(1)
    store = Store(LIMIT_BYTES // 4)
    engine = inner(task, data, store)
    while True:
        try:
            order = wire.unpack(pipe.recv_bytes(), task)
        except (EOFError, OSError):
            return
        try:
            pipe.send_bytes(wire.pack(carry_out(engine, order)))
        except BrokenPipeError:
            return
        except Exception as error:
            report = wire.Raised(type(error).__name__, str(error), traceback.format_exc())
            pipe.send_bytes(wire.pack(report))


def carry_out(engine: Sequential, order: wire.TrainOrder) -> wire.Trained | wire.Tested:
    """Do what an order says. Uploads of a cohort go back joined: fewer arrays to write and to check."""
    store = engine.store
    for client, state in order.states.items():
        store.put(client, state)
    for job in order.jobs:
        if job.client not in order.held:
            store.drop(job.client)
    if isinstance(order, wire.TestOrder):
        return wire.Tested(list(engine.evaluate(order.jobs)))
    answers = list(engine.run(order.jobs))
    replies = [answer for answer in answers if isinstance(answer, Reply)]
    for reply in replies:
        store.put(reply.client, reply.state)
    if len(replies) == len(answers):
        block = Block.join(order.jobs[0].leg.up, replies, engine.task.sizes)
        return wire.Trained(answers if block is None else [block])
    return wire.Trained(answers)


def _die_with(parent: int) -> None:
    """Ask the kernel to end this process with its parent (Linux); elsewhere the closed pipe does it."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
