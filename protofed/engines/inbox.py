"""The server's inbox: what clients answered is checked and counted before a method reads it.

Answers that are ready together are joined, so that one check, one count and the method's own sums serve all
of them. Worker processes join uploads on their side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..core.algorithm import Leg
from ..core.answer import Answer, Block, Failure, Replies, Reply, Work
from ..core.errors import MessageError
from ..core.guard import Adversary
from ..core.record import Payload, Record
from ..core.stages import stage
from ..core.task import Turn
from .base import Engine, Job

TOGETHER = 64  # uploads checked together at most
TOGETHER_BYTES = 3 * 512 * 1024  # and no more than about this: beyond, joined rows fall out of the caches


@dataclass
class Tally:
    """What one round cost and did: sums alone, so that it does not grow with the clients."""

    up: Payload = Payload()
    down: Payload = Payload()
    failures: list[Failure] = field(default_factory=list)
    samples: int = 0
    steps: int = 0
    trained: int = 0  # clients that made steps
    loss_sum: float = 0.0

    @property
    def loss(self) -> float:
        """Mean training loss over the clients that made steps."""
        return self.loss_sum / self.trained if self.trained else math.nan

    def count(self, works: Iterable[Work]) -> None:
        """Add what clients did."""
        for steps, samples, loss in works:
            self.samples += samples
            self.steps += steps
            if steps:
                self.trained += 1
                self.loss_sum += loss


@dataclass
class Inbox:
    """Takes the answers of one leg. A client's new state counts only with an accepted upload."""

    engine: Engine
    leg: Leg
    round: int
    tally: Tally
    on_failure: str
    adversary: Adversary = field(default_factory=Adversary)
    answered: set[int] = field(default_factory=set)

    def replies(self, jobs: Iterable[Sequence[Job]]) -> Replies | None:
        """The accepted replies to these jobs, which are handed over some at a time; None: nobody answered."""
        turn = Turn(self.engine.task, self.round, self.leg.name)
        blocks = self.read(self.adversary.answers(self._answers(jobs), self.leg, turn))
        first = next(blocks, None)
        return None if first is None else Replies.of_blocks(itertools.chain([first], blocks))

    def _answers(self, jobs: Iterable[Sequence[Job]]) -> Iterator[Answer]:
        for some in jobs:
            answers = iter(self.engine.run(some))
            while True:
                # Replies are pulled while the server aggregates: what clients do then is not its time.
                with stage("engine"):
                    answer = next(answers, None)
                if answer is None:
                    break
                yield answer

    def read(self, answers: Iterable[Answer]) -> Iterator[Sequence[Reply]]:
        """Accepted replies: in blocks if answers come together, else each as soon as it is there."""
        for some in _gathered(answers, TOGETHER if self.engine.together else 1):
            with stage("checks"):
                accepted = self._block(some) if isinstance(some, Block) else self._list(some)
            if accepted:
                yield accepted

    def _list(self, answers: list[Reply | Failure]) -> Sequence[Reply]:
        replies = [answer for answer in answers if isinstance(answer, Reply)]
        whole = len(replies) == len(answers)
        block = Block.join(self.leg.up, replies, self.engine.task.sizes) if whole else None
        return self._each(answers) if block is None else self._block(block, joined_here=True)

    def _block(self, block: Block, joined_here: bool = False) -> Sequence[Reply]:
        """What was joined here is sound; what was joined elsewhere may have been spoilt since."""
        if self.engine.checks is not None and not self.engine.checks.together(block, joined_here):
            return self._each(list(block))
        self.answered.update(block.clients)
        self.engine.store.put_all(block.clients, block.states)
        self.tally.count(block.works)
        self.tally.up = self.tally.up + block.payload()
        return block.for_method()

    def _each(self, answers: Iterable[Reply | Failure]) -> list[Reply]:
        accepted = []
        for answer in answers:
            failure = answer if isinstance(answer, Failure) else self._refused(answer)
            if failure is None and isinstance(answer, Reply):
                accepted.append(self._accept(answer))
            elif failure is not None:
                if self.on_failure == "stop" and failure.client not in self.adversary.clients:
                    raise MessageError(failure.reason)
                self.tally.failures.append(failure)
        return accepted

    def _refused(self, reply: Reply) -> Failure | None:
        reason = self.engine.checks.problem(reply, self.leg, self.round) if self.engine.checks else None
        return None if reason is None else Failure(reply.client, reason)

    def _accept(self, reply: Reply) -> Reply:
        client, n, up, state, work = reply
        self.answered.add(client)
        self.engine.store.put(client, state)
        self.tally.count([work])
        self.tally.up = self.tally.up + up.payload(self._buffers(client))
        return Reply(client, n, up)

    def _buffers(self, client: int) -> frozenset[str]:
        task = self.engine.task
        return task.names(task.group_of(client)).buffers


def _gathered(answers: Iterable[Answer], most: int) -> Iterator[Block | list[Reply | Failure]]:
    """Lists of at most `most` answers, fewer if uploads are large (the first tells how large); blocks
    as they are."""
    some: list[Reply | Failure] = []
    room = most
    for answer in answers:
        if isinstance(answer, Block):
            yield answer
            continue
        if not some and most > 1:
            room = min(most, TOGETHER_BYTES // _nbytes(answer)) if isinstance(answer, Reply) else most
        some.append(answer)
        if len(some) >= room:
            yield some
            some = []
    if some:
        yield some


def _nbytes(reply: Reply) -> int:
    return max(1, reply.up.payload().bytes) if isinstance(reply.up, Record) else 1
