"""The worker engine: persistent processes, one per core, one thread each.

The parent decides which client runs where and keeps all states; workers train and test. They are forked,
so data sets and modules are shared until written to. A worker keeps the states of the clients it trained,
and gets only what it lacks. Work is planned from client sizes alone, never from timing, so that cohorts
have the same members in a resumed run; an idle worker takes whole shares from a busy one.

A worker that dies is replaced and its share is done again; the round is not lost. One that hangs is ended
(watchdog.py), and so replaced too. Workers end with their parent, also when it is killed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from multiprocessing import connection, get_all_start_methods, get_context
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar, NoReturn
from weakref import WeakValueDictionary

from ..core import errors
from ..core.answer import Answer, Block, ClientState, Failure, Reply, Score
from ..core.data import ClientData
from ..core.errors import EngineError, ProtofedError
from ..core.task import Task
from .base import Engine, Job
from .cohort import LARGEST, Cohort
from .sequential import Sequential
from .store import Store
from .watchdog import Patience, Watchdog, Watched
from .worker_process import Raised, Scores, TestOrder, TrainedBlock, TrainOrder, pack, unpack, work

TRIES = 3  # how often a share may kill its worker
Kind = type[TrainOrder]
log = logging.getLogger("protofed")


def own_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class Share:
    """Jobs that one worker does together."""

    jobs: list[Job]
    weight: float
    tries: int = 0


@dataclass
class Worker:
    """A process, its end of the pipe, what it is doing and what it still has to do."""

    number: int
    process: BaseProcess
    pipe: connection.Connection
    queue: deque[Share] = field(default_factory=deque)
    doing: Share | None = None
    owes: Watched | None = None  # the answer to what it is doing
    begun: float = 0.0
    # States that the worker has; the store decides how long they stay in memory here.
    held: WeakValueDictionary[int, ClientState] = field(default_factory=WeakValueDictionary)

    @property
    def load(self) -> float:
        """Work that it has not begun."""
        return sum(share.weight for share in self.queue)


class Workers(Engine):
    """Trains and tests clients in processes of its own."""

    name: ClassVar[str] = "workers"
    window: ClassVar[int | None] = 2048  # bounds the replies that wait for their turn

    def __init__(
        self,
        task: Task,
        data: ClientData,
        store: Store,
        workers: int | None = None,
        cohort: bool = False,
        timeout: float | None = None,
    ):
        super().__init__(task, data, store)
        if "fork" not in get_all_start_methods():
            raise EngineError("the worker engine needs a system that can fork; use the engine sequential")
        self.count = workers or own_cores()
        self.cohort = cohort
        self.patience = Patience(timeout)
        self._workers: list[Worker] = []
        self._watchdog: Watchdog | None = None

    def run(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """Replies, failures and blocks of them."""
        return self._do(TrainOrder, jobs)

    def evaluate(self, jobs: Sequence[Job]) -> Iterator[Score]:
        """A score for each job."""
        for answer in self._do(TestOrder, jobs):
            if isinstance(answer, Failure):
                raise EngineError(f"test of {answer.reason}")
            yield answer

    def close(self) -> None:
        """End all processes."""
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None
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
        samples = self.data.size(job.client) * max(job.turn.epochs, 1)
        return float(samples * (10_000 + self.task.parameter_count(job.turn.group)))

    def _plan(self, kind: Kind, jobs: Sequence[Job]) -> list[list[Share]]:
        """Shares for each worker: longest first, each to the worker with the least work so far."""
        bins: list[list[tuple[float, Job]]] = [[] for _ in range(self.count)]
        loads = [0.0] * self.count
        weighed = sorted(((self._weight(job), job) for job in jobs), key=lambda w: -w[0])
        for weight, job in weighed:
            home = self._home(job) if kind is TestOrder else None
            least = loads.index(min(loads)) if home is None else home
            loads[least] += weight
            bins[least].append((weight, job))
        return [self._shares(kind, members) for members in bins]

    def _home(self, job: Job) -> int | None:
        """The worker that holds the client's state."""
        state = self.store.get(job.client)
        if state is None:
            return job.client % self.count
        return next((w.number for w in self._workers if w.held.get(job.client) is state), None)

    def _shares(self, kind: Kind, members: list[tuple[float, Job]]) -> list[Share]:
        if kind is TrainOrder and not self.cohort:
            return [Share([job], weight) for weight, job in members]
        size = LARGEST if kind is TrainOrder else 64
        groups: dict[int, list[tuple[float, Job]]] = {}
        for weight, job in members:
            groups.setdefault(job.turn.group, []).append((weight, job))
        parts = [g[i : i + size] for g in groups.values() for i in range(0, len(g), size)]
        return [Share([job for _, job in part], sum(w for w, _ in part)) for part in parts]

    # carrying out

    def _do(self, kind: Kind, jobs: Sequence[Job]) -> Iterator[Any]:
        """Answers in the order of the jobs."""
        self._start()
        for worker, shares in zip(self._workers, self._plan(kind, jobs)):
            worker.queue.extend(shares)
        answers: dict[int, Any] = {}
        waiting = deque(jobs)
        told: set[int] = set()  # clients whose answers went out in a block
        try:
            while waiting:
                client = waiting[0].client
                if client in told or client in answers:
                    waiting.popleft()
                    if client not in told:
                        answer = answers.pop(client)
                        told.update(answer.clients if isinstance(answer, Block) else ())
                        yield answer
                    continue
                for worker in self._workers:
                    self._feed(kind, worker)
                answers |= self._collect(kind)
        finally:
            if waiting:  # the reader gave up, or something failed: start clean next time
                self.close()

    def _feed(self, kind: Kind, worker: Worker) -> None:
        if worker.doing is not None:
            return
        if not worker.queue:
            busiest = max(self._workers, key=lambda w: w.load)
            if not busiest.queue:
                return
            worker.queue.append(busiest.queue.pop())
        worker.doing = worker.queue.popleft()
        jobs, states = worker.doing.jobs, {}
        for job in jobs:
            state = self.store.get(job.client)
            if state is not None and worker.held.get(job.client) is not state:
                states[job.client] = state
                worker.held[job.client] = state
            elif state is None:
                worker.held.pop(job.client, None)
        held = frozenset(job.client for job in jobs if job.client in worker.held)
        share, worker.begun = worker.doing, time.monotonic()
        limit = self.patience.limit(kind.__name__, share.weight, share.tries)
        worker.owes = Watched(worker.process, limit)
        order = pack(kind(jobs, states, held))
        with self._waiting([worker]), contextlib.suppress(OSError):  # it died: noticed later
            worker.pipe.send_bytes(order)

    def _waiting(self, workers: Iterable[Worker]) -> AbstractContextManager[None]:
        assert self._watchdog is not None
        return self._watchdog.waiting([worker.owes for worker in workers if worker.owes is not None])

    def _collect(self, kind: Kind) -> dict[int, Any]:
        """Wait for at least one worker, and take what there is."""
        answers: dict[int, Any] = {}
        busy = {worker.pipe: worker for worker in self._workers if worker.doing is not None}
        with self._waiting(busy.values()):
            ready = connection.wait(list(busy))
        for pipe in ready:
            worker = busy[pipe]  # type: ignore[index]
            try:
                with self._waiting([worker]):
                    message = unpack(worker.pipe.recv_bytes(), self.task)
            except (EOFError, OSError):
                answers |= self._replace(worker)
                continue
            assert worker.doing is not None
            self.patience.learn(kind.__name__, worker.doing.weight, time.monotonic() - worker.begun)
            worker.doing = None
            match message:
                case Raised():
                    _raise(message)
                case Scores():
                    answers |= {score.client: score for score in message.scores}
                case TrainedBlock():
                    for answer in message.answers:
                        answers |= _noted(worker, answer)
        return answers

    def _replace(self, worker: Worker) -> dict[int, Any]:
        """A new process for one that died or hung; its share goes back, unless it was the end of too many."""
        worker.process.join(timeout=1)
        share, how = worker.doing, _end_of(worker)
        log.warning("worker %d (process %d) %s", worker.number, worker.process.pid or 0, how)
        worker.pipe.close()
        fresh = self._fork(worker.number)
        worker.process, worker.pipe, worker.doing, worker.held = fresh.process, fresh.pipe, None, fresh.held
        if share is None:
            return {}
        share.tries += 1
        if share.tries < TRIES:
            worker.queue.appendleft(share)
            return {}
        reason = f"{TRIES} times its worker process {how}"
        clients = [job.client for job in share.jobs]
        return {client: Failure(client, f"client {client}: {reason}") for client in clients}

    def _start(self) -> None:
        if not self._workers:
            self._watchdog = Watchdog()
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


def _end_of(worker: Worker) -> str:
    owes, code = worker.owes, worker.process.exitcode
    if owes is not None and owes.ended:
        seconds = f"{owes.limit:.0f} s (worker_timeout sets the time)"
        return f"has not answered for {seconds} and was replaced; its work is done again"
    return f"died, exit code {code}" + (" (out of memory?)" if code == -signal.SIGKILL else "")


def _noted(worker: Worker, answer: Answer) -> dict[int, Answer]:
    """An answer for each of its clients; the worker has the states that it sent."""
    if isinstance(answer, Block):
        worker.held.update(zip(answer.clients, answer.states))
        return dict.fromkeys(answer.clients, answer)
    if isinstance(answer, Reply):
        worker.held[answer.client] = answer.state
    return {answer.client: answer}


def _raise(report: Raised) -> NoReturn:
    cls = getattr(errors, report.kind, None)
    if isinstance(cls, type) and issubclass(cls, ProtofedError):
        raise cls(report.message)
    raise RuntimeError(f"a worker failed:\n{report.trace}")
