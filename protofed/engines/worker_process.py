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

from ..core.client import Outcome
from ..core.data import ClientData
from ..core.task import Task
from .base import Answer
from .sequential import Sequential
from .store import LIMIT_BYTES, Store
from .wire import Wire


def work(
    pipe: connection.Connection,
    foreign: list[Any],
    inner: type[Sequential],
    task: Task,
    data: ClientData,
    parent: int,
) -> None:
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
            message = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            pipe.send_bytes(Wire.pack(_answer(engine, *Wire.unpack(message))))
        except BrokenPipeError:
            return
        except Exception as error:
            report = (type(error).__name__, str(error), traceback.format_exc())
            pipe.send_bytes(Wire.pack(("error", report)))


def _answer(
    engine: Sequential, kind: str, written: Any, states: dict[int, Any], held: list[int]
) -> tuple[str, Any]:
    """Carry out jobs. Uploads of a cohort go back joined: fewer arrays to write and to check."""
    store = engine.store
    for client, state in states.items():
        store.put(client, state)
    jobs = Wire.read_jobs(written, engine.task)
    for job in jobs:
        if job.turn.client not in held:
            store.drop(job.turn.client)  # type: ignore[arg-type]
    if kind == "evaluate":
        return "done", list(engine.evaluate(jobs))
    answers = list(engine.run(jobs))
    outcomes = [answer for answer in answers if isinstance(answer, Outcome)]
    for outcome in outcomes:
        store.put(outcome.client, outcome.state)
    joined = None
    if 1 < len(outcomes) == len(answers):
        joined = jobs[0].leg.up.join([outcome.up for outcome in outcomes], engine.task.sizes)
    if joined is not None:
        clients, counts, _, after, works = zip(*outcomes)
        return "bundle", (clients, counts, *joined, [(s.kept, s.mem) for s in after], works)
    return "done", [_written(answer) for answer in answers]


def _written(answer: Answer) -> Any:
    if not isinstance(answer, Outcome):
        return answer
    return "outcome", answer.n, answer.up.arrays(), answer.state.kept, answer.state.mem, answer.work


def _die_with(parent: int) -> None:
    """Ask the kernel to end this process with its parent (Linux); elsewhere the closed pipe does it."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
