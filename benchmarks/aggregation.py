"""How the server keeps up with very many uploads: time beside a plain sum, and memory.

The uploads stream: they come from a pool that is passed again and again, as if clients sent them. Ours is
the whole way of an upload through the server: the checks and counts of the inbox, and FedProto's weighted
average per class. It is timed for uploads that arrive in the bundles of a worker process, and one by one; the
bundles a second time without the checks, to show what these cost.
The plain sum adds each upload's prototypes to a total: no check, no class, no weight, no count.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from protofed.algorithms.fedproto import FedProto, Protos
from protofed.core.answer import Answer, Block, ClientState, Reply, Score, Work
from protofed.core.task import Group, Task, Turn
from protofed.data.federated import OwnData
from protofed.engines.base import Engine, Job
from protofed.engines.cohort import LARGEST
from protofed.engines.inbox import Inbox, Tally
from protofed.engines.store import Store

from .machine import Peak, interleaved, ratios, spans

CLASSES, DIM = 10, 512
POOL = 5_000  # 100 MB: more than caches hold, as the 2 GB of 100,000 uploads would be
T = TypeVar("T")


def aggregation(uploads: int, repeats: int) -> dict[str, Any]:
    """Seconds for `uploads` uploads, ratios to the plain sum, and the growth of memory meanwhile."""
    pool = _pool(min(POOL, uploads))
    task = _task(len(pool))
    bundles = [_bundle(pool[i : i + LARGEST], task) for i in range(0, len(pool), LARGEST)]
    batches = -(-uploads // LARGEST)
    timed = interleaved(
        {
            "in bundles": lambda: _ours(task, _stream(bundles, batches)),
            "in bundles, unchecked": lambda: _ours(task, _stream(bundles, batches), checked=False),
            "one by one": lambda: _ours(task, _stream(pool, uploads)),
            "plain sum": lambda: _plain(_stream(pool, uploads)),
        },
        repeats,
    )
    return {
        "uploads": uploads,
        "shape": [CLASSES, DIM],
        "repeats": repeats,
        **spans(timed),
        **ratios(timed, "plain sum"),
        "growth_mb": {
            str(count): _growth(task, _stream(bundles, -(-count // LARGEST)))
            for count in (max(1, uploads // 10), uploads)
        },
    }


def _ours(task: Task, answers: Iterable[Answer], checked: bool = True) -> Any:
    method = task.algorithm
    turn = Turn(task, 1)
    engine = Replay(task, answers)
    if not checked:
        engine.checks = None
    replies = Inbox(engine, method.legs[0], 1, Tally(), "stop").replies([[]])
    assert replies is not None
    return method.aggregate(method.init(task, turn), replies, turn)


class Replay(Engine):
    """Gives answers that were made before."""

    def __init__(self, task: Task, answers: Iterable[Answer]):
        super().__init__(task, OwnData([], []), Store())
        self.answers = answers

    def run(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        return iter(self.answers)

    def evaluate(self, jobs: Sequence[Job]) -> Iterator[Score]:
        return iter(())


def _plain(outcomes: Iterable[Reply]) -> Any:
    total = torch.zeros(CLASSES, DIM)
    for outcome in outcomes:
        total.add_(outcome.up.mean)
    return total


def _growth(task: Task, answers: Iterable[Answer]) -> float:
    with Peak() as peak:
        _ours(task, answers)
    return peak.growth_mb


def _stream(pool: Sequence[T], count: int) -> Iterator[T]:
    return itertools.islice(itertools.cycle(pool), count)


def _pool(count: int) -> list[Reply]:
    generator = torch.Generator().manual_seed(0)
    made = []
    for client in range(count):
        mean = torch.randn(CLASSES, DIM, generator=generator)
        n = torch.randint(1, 50, (CLASSES,), generator=generator)
        up = Protos(mean, torch.arange(CLASSES), n, {})
        made.append(Reply(client, int(n.sum()), up, ClientState(), Work(1, 1, 1.0)))
    return made


def _bundle(outcomes: Sequence[Reply], task: Task) -> Block:
    """As a worker process sends them."""
    block = Block.join(Protos, outcomes, task.sizes)
    assert block is not None
    return block


def _task(clients: int) -> Task:
    group = Group("linear", lambda: nn.Linear(1, 1))
    return Task(FedProto(), [group], np.zeros(clients, dtype=np.int64), CLASSES, (DIM,))
