"""The worker engine: persistent processes, one per core, one thread each.

The parent decides which client runs where and keeps all states; workers train and test. They are forked,
so data sets and modules are shared until written to. A worker keeps the states of the clients it trained,
and gets only what it lacks. How work is divided stands in planning.py; an idle worker takes whole shares from
a busy one.

A worker that dies is replaced and its share is done again; the round is not lost. One that hangs is ended
(watchdog.py), and so replaced too. Workers end with their parent, also when it is killed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from multiprocessing import connection, get_all_start_methods, get_context
from typing import Any, ClassVar

from ..core.answer import Answer, Block, Failure, Score
from ..core.data import ClientData
from ..core.errors import EngineError
from ..core.scoring import ScoredPart, joined
from ..core.task import ClientTurn, Task
from .base import Engine, Job
from .cohort import Cohort
from .planning import Planner, Share
from .sequential import Sequential
from .store import Store
from .watchdog import Patience, Watchdog, Watched
from .worker import Worker
from .worker_process import (
    AheadOrder,
    Raised,
    Scores,
    TestOrder,
    TrainedBlock,
    TrainOrder,
    pack,
    unpack,
    work,
)

MOST_AHEAD = 200  # clients whose tests a worker may begin: an order that fits into a pipe
TRIES = 3  # how often a share may kill its worker
Kind = type[TrainOrder]
log = logging.getLogger("protofed")


def own_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
        self.planner = Planner(task, data, self.count, cohort)
        self.patience = Patience(timeout)
        self._parts: dict[int, list[ScoredPart]] = {}
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

    def _plan(self, kind: Kind, jobs: Sequence[Job]) -> list[list[Share]]:
        """Shares for each worker."""
        divide = self.planner.tests if kind is TestOrder else self.planner.training
        return divide(jobs, self._home)

    def _home(self, job: Job) -> int | None:
        """The worker that holds the client's state."""
        state = self.store.get(job.client)
        if state is None:
            return None
        return next((w.number for w in self._workers if w.held.get(job.client) is state), None)

    # carrying out

    def _do(self, kind: Kind, jobs: Sequence[Job]) -> Iterator[Any]:
        """Answers in the order of the jobs."""
        self._start()
        self._parts.clear()
        for worker, shares in zip(self._workers, self._plan(kind, jobs)):
            worker.queue.extend(shares)
            worker.trained.clear()
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
        order = pack(kind(jobs, states, held, **({"parts": share.parts} if share.parts else {})))
        with self._waiting([worker]), contextlib.suppress(OSError):  # it died: noticed later
            worker.pipe.send_bytes(order)

    def _waiting(self, workers: Iterable[Worker]) -> AbstractContextManager[None]:
        assert self._watchdog is not None
        return self._watchdog.waiting([worker.owes for worker in workers if worker.owes is not None])

    def _collect(self, kind: Kind) -> dict[int, Any]:
        """Wait for at least one worker, and take what there is."""
        answers: dict[int, Any] = {}
        busy = {worker.pipe: worker for worker in self._workers if worker.doing is not None}
        if not busy:  # it would wait for ever
            raise RuntimeError("the workers have nothing to do, but answers are missing")
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
            share, worker.doing = worker.doing, None
            self.patience.learn(kind.__name__, share.weight, time.monotonic() - worker.begun)
            match message:
                case Raised():
                    message.raise_again()
                case Scores():
                    self.planner.learn_tests(share, message.seconds, message.chunks)
                    answers |= self._whole(message.scores)
                case TrainedBlock():
                    self.planner.learn_training(share.jobs, message.seconds, worker.number)
                    for answer in message.answers:
                        answers |= worker.note(answer)
                    self._go_ahead(worker, share.jobs)
        return answers

    def _whole(self, scores: Sequence[Score | ScoredPart]) -> dict[int, Score]:
        """Scores of those whose tests are complete."""
        found: dict[int, Score] = {}
        for score in scores:
            if isinstance(score, Score):
                found[score.client] = score
                continue
            parts = self._parts.setdefault(score.client, [])
            parts.append(score)
            if sum(len(part.chunks) for part in parts) == score.of:
                found[score.client] = joined(self._parts.pop(score.client))
        return found

    def _go_ahead(self, worker: Worker, jobs: Sequence[Job]) -> None:
        """A worker that has nothing left to train begins with the tests of those it trained."""
        worker.trained += [
            job for job in jobs if job.client in self.tested_next and job.client in worker.held
        ]
        if not worker.trained or any(other.queue for other in self._workers):
            return
        turns = [ClientTurn(self.task, job.turn.round, "eval", client=job.client) for job in worker.trained]
        worker.owes = Watched(worker.process, self.patience.limit(TestOrder.__name__, 0.0))
        with self._waiting([worker]), contextlib.suppress(OSError):  # it died: noticed later
            worker.pipe.send_bytes(pack(AheadOrder(turns[:MOST_AHEAD])))

    def _replace(self, worker: Worker) -> dict[int, Any]:
        """A new process for one that died or hung; its share goes back, unless it was the end of too many."""
        worker.process.join(timeout=1)
        share, how = worker.doing, worker.end
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
