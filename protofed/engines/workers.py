"""The worker engine: persistent processes, one per core, one thread each.

The parent decides which client runs where and keeps all states; workers train and test. They are forked,
so data sets and modules are shared until written to. A worker keeps the states of the clients it trained,
and gets only what it lacks. Work is planned from client sizes alone, never from timing, so that cohorts
have the same members in a resumed run; an idle worker takes whole blocks from a busy one.

A worker that dies is replaced and its block is done again; the round is not lost. Workers end with their
parent, also when it is killed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, get_all_start_methods, get_context
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from ..core import errors
from ..core.client import ClientState, Outcome
from ..core.data import ClientData
from ..core.errors import EngineError, ProtofedError
from ..core.fields import Joined
from ..core.task import Task
from ..metrics.scores import Score
from .base import Answer, Bundle, Engine, Failure, Job
from .cohort import LARGEST, Cohort
from .sequential import Sequential
from .store import Store
from .wire import Wire
from .worker_process import work

TRIES = 3  # how often a block may kill its worker
log = logging.getLogger("protofed")


def own_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class Block:
    """Jobs that one worker does together."""

    jobs: list[Job]
    weight: float
    number: int = 0
    tries: int = 0


@dataclass
class Worker:
    """A process, its end of the pipe, what it is doing and what it still has to do."""

    number: int
    process: BaseProcess
    pipe: connection.Connection
    queue: deque[Block] = field(default_factory=deque)
    doing: Block | None = None
    # States that the worker has; the store decides how long they stay in memory here.
    held: WeakValueDictionary[int, ClientState] = field(default_factory=WeakValueDictionary)

    @property
    def load(self) -> float:
        return sum(block.weight for block in self.queue)


class Workers(Engine):
    name: ClassVar[str] = "workers"
    window: ClassVar[int | None] = 2048  # bounds the replies that wait for their turn

    def __init__(
        self, task: Task, data: ClientData, store: Store, workers: int | None = None, cohort: bool = False
    ):
        super().__init__(task, data, store)
        if "fork" not in get_all_start_methods():
            raise EngineError("the worker engine needs a system that can fork; use --engine sequential")
        self.count = workers or own_cores()
        self.cohort = cohort
        self._workers: list[Worker] = []

    def run(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        return self._do("run", jobs)

    def evaluate(self, jobs: Sequence[Job]) -> Iterator[Score]:
        for answer in self._do("evaluate", jobs):
            if isinstance(answer, Failure):
                raise EngineError(f"test of {answer.reason}")
            yield answer

    def close(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
        deadline = time.monotonic() + 2
        for worker in self._workers:
            worker.process.join(timeout=max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers = []

    # planning

    def _weight(self, job: Job) -> float:
        """Expected work: samples × epochs × size of the model."""
        assert job.turn.client is not None
        samples = self.data.size(job.turn.client) * max(job.turn.epochs, 1)
        return float(samples * (10_000 + self.task.parameter_count(job.turn.group)))

    def _plan(self, kind: str, jobs: Sequence[Job]) -> list[list[Block]]:
        """Blocks for each worker: longest first, each to the worker with the least work so far."""
        bins: list[list[tuple[float, Job]]] = [[] for _ in range(self.count)]
        loads = [0.0] * self.count
        weighed = sorted(((self._weight(job), job) for job in jobs), key=lambda w: -w[0])
        for weight, job in weighed:
            home = self._home(job) if kind == "evaluate" else None
            least = loads.index(min(loads)) if home is None else home
            loads[least] += weight
            bins[least].append((weight, job))
        return [self._blocks(kind, members) for members in bins]

    def _home(self, job: Job) -> int | None:
        """The worker that holds the client's state."""
        client = job.turn.client
        assert client is not None
        state = self.store.get(client)
        if state is None:
            return client % self.count
        return next((w.number for w in self._workers if w.held.get(client) is state), None)

    def _blocks(self, kind: str, members: list[tuple[float, Job]]) -> list[Block]:
        if kind == "run" and not self.cohort:
            return [Block([job], weight) for weight, job in members]
        size = LARGEST if kind == "run" else 64
        groups: dict[int, list[tuple[float, Job]]] = {}
        for weight, job in members:
            groups.setdefault(job.turn.group, []).append((weight, job))
        parts = [g[i : i + size] for g in groups.values() for i in range(0, len(g), size)]
        return [Block([job for _, job in part], sum(w for w, _ in part)) for part in parts]

    # carrying out

    def _do(self, kind: str, jobs: Sequence[Job]) -> Iterator[Any]:
        """Answers in the order of the jobs."""
        self._start()
        for worker, blocks in zip(self._workers, self._plan(kind, jobs)):
            worker.queue.extend(blocks)
        answers: dict[int, Any] = {}
        waiting = deque(jobs)
        told: set[int] = set()  # clients whose answers went out in a bundle
        try:
            while waiting:
                client = waiting[0].turn.client
                if client in told or client in answers:
                    waiting.popleft()
                    if client not in told:
                        answer = answers.pop(client)
                        told.update(answer.clients if isinstance(answer, Bundle) else ())
                        yield answer
                    continue
                for worker in self._workers:
                    self._feed(kind, worker)
                answers |= self._collect()
        finally:
            if waiting:  # the reader gave up, or something failed: start clean next time
                self.close()

    def _feed(self, kind: str, worker: Worker) -> None:
        if worker.doing is not None:
            return
        if not worker.queue:
            busiest = max(self._workers, key=lambda w: w.load)
            if not busiest.queue:
                return
            worker.queue.append(busiest.queue.pop())
        worker.doing = worker.queue.popleft()
        states = {}
        for job in worker.doing.jobs:
            client = job.turn.client
            assert client is not None
            state = self.store.get(client)
            if state is not None and worker.held.get(client) is not state:
                states[client] = state
                worker.held[client] = state
            elif state is None:
                worker.held.pop(client, None)
        held = [j.turn.client for j in worker.doing.jobs if j.turn.client in worker.held]
        with contextlib.suppress(OSError):  # it died: noticed when its answer is awaited
            worker.pipe.send_bytes(Wire.pack((kind, Wire.jobs(worker.doing.jobs), states, held)))

    def _collect(self) -> dict[int, Any]:
        """Wait for at least one worker, and take what there is."""
        answers: dict[int, Any] = {}
        busy = {worker.pipe: worker for worker in self._workers if worker.doing is not None}
        for pipe in connection.wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]
            block = worker.doing
            assert block is not None
            try:
                kind, content = Wire.unpack(worker.pipe.recv_bytes())
            except (EOFError, OSError):
                answers |= self._replace(worker)
                continue
            worker.doing = None
            if kind == "error":
                _raise(*content)
            if kind == "bundle":
                bundle = _bundle(*content)
                worker.held.update(zip(bundle.clients, bundle.states))
                answers.update(dict.fromkeys(bundle.clients, bundle))
                continue
            for job, answer in zip(block.jobs, content):
                client = job.turn.client
                assert client is not None
                if isinstance(answer, tuple) and not isinstance(answer, Score) and answer[0] == "outcome":
                    answer = _outcome(job, *answer[1:])
                    worker.held[client] = answer.state
                answers[client] = answer
        return answers

    def _replace(self, worker: Worker) -> dict[int, Any]:
        """A new process for a dead one; its block goes back, unless it has killed too many."""
        worker.process.join(timeout=1)
        code, block = worker.process.exitcode, worker.doing
        log.warning("worker %d (process %d) died, exit code %s", worker.number, worker.process.pid or 0, code)
        worker.pipe.close()
        fresh = self._fork(worker.number)
        worker.process, worker.pipe, worker.doing, worker.held = fresh.process, fresh.pipe, None, fresh.held
        assert block is not None
        block.tries += 1
        if block.tries < TRIES:
            worker.queue.appendleft(block)
            return {}
        reason = f"its worker process died {TRIES} times, exit code {code} (out of memory?)"
        clients = [job.turn.client for job in block.jobs if job.turn.client is not None]
        return {client: Failure(client, f"client {client}: {reason}") for client in clients}

    def _start(self) -> None:
        if not self._workers:
            for group in range(len(self.task.groups)):
                self.task.live(group)  # built once, before the fork
            for number in range(self.count):  # each closes the pipes of those before it
                self._workers.append(self._fork(number))

    def _fork(self, number: int) -> Worker:
        context = get_context("fork")
        ours, theirs = context.Pipe()
        inner = Cohort if self.cohort else Sequential
        foreign = [w.pipe for w in self._workers] + [ours]
        arguments = (theirs, foreign, inner, self.task, self.data, os.getpid())
        with (
            warnings.catch_warnings()
        ):  # newer Pythons warn of any thread; ours (a progress bar) hold no lock we need
            warnings.simplefilter("ignore", DeprecationWarning)
            process = context.Process(
                target=work, args=arguments, daemon=True, name=f"protofed-worker-{number}"
            )
            process.start()
        theirs.close()
        return Worker(number, process, ours)


def _outcome(job: Job, n: int, up: dict[str, Any], kept: Any, mem: Any, work: Any) -> Outcome:
    assert job.turn.client is not None
    return Outcome(job.turn.client, n, Wire.record(job.leg.up, up), ClientState(kept, mem), work)


def _bundle(clients: Any, n: Any, fields: Any, rows: Any, states: Any, works: Any) -> Bundle:
    return Bundle(clients, n, Joined(fields, rows), [ClientState(*state) for state in states], works)


def _raise(name: str, message: str, trace: str) -> None:
    cls = getattr(errors, name, None)
    if isinstance(cls, type) and issubclass(cls, ProtofedError):
        raise cls(message)
    raise RuntimeError(f"a worker failed:\n{trace}")
