"""The server's inbox: what clients answered is checked and counted before a method reads it.

Answers that are ready together are joined, so that one check, one count and the method's own sums serve all
of them. Worker processes join uploads on their side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..core.algorithm import Leg
from ..core.answer import Answer, Block, Failure, Reply, Work
from ..core.errors import MessageError
from ..core.record import Payload, Record
from ..core.stages import is_stage
from ..core.task import Task
from .checks import Checks
from .store import Store

TOGETHER = 64  # uploads checked together at most
TOGETHER_BYTES = 3 * 512 * 1024  # and no more than about this: beyond, joined rows fall out of the caches


@dataclass
class Tally:
    """What one round cost and did: sums alone, so that it does not grow with the clients."""

    up: Payload = Payload()
    down: Payload = Payload()
    failures: list[Failure] = field(default_factory=list)
    samples: int = 0
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
            if steps:
                self.trained += 1
                self.loss_sum += loss


@dataclass
class Inbox:
    """Takes the answers of one leg. A client's new state counts only with an accepted upload."""

    task: Task
    leg: Leg
    round: int
    store: Store
    tally: Tally
    on_failure: str
    checks: Checks | None  # None: the engine made them
    answered: set[int] = field(default_factory=set)

    def read(self, answers: Iterable[Answer], together: bool) -> Iterator[Sequence[Reply]]:
        """Accepted replies: in blocks if answers come together, else each as soon as it is there."""
        for some in _gathered(answers, TOGETHER if together else 1):
            accepted = self._block(some) if isinstance(some, Block) else self._list(some)
            if accepted:
                yield accepted

    @is_stage("checks")
    def _list(self, answers: list[Reply | Failure]) -> Sequence[Reply]:
        replies = [answer for answer in answers if isinstance(answer, Reply)]
        block = Block.join(self.leg.up, replies, self.task.sizes) if len(replies) == len(answers) else None
        return self._each(answers) if block is None else self._block(block, joined_here=True)

    @is_stage("checks")
    def _block(self, block: Block, joined_here: bool = False) -> Sequence[Reply]:
        """What was joined here is sound; what was joined elsewhere may have been spoilt since."""
        if self.checks is not None and not self.checks.together(block, joined_here):
            return self._each(list(block))
        self.answered.update(block.clients)
        for client, state in zip(block.clients, block.states):
            self.store.put(client, state)
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
                if self.on_failure == "stop":
                    raise MessageError(failure.reason)
                self.tally.failures.append(failure)
        return accepted

    def _refused(self, reply: Reply) -> Failure | None:
        reason = self.checks.problem(reply, self.leg, self.round) if self.checks else None
        return None if reason is None else Failure(reply.client, reason)

    def _accept(self, reply: Reply) -> Reply:
        client, n, up, state, work = reply
        self.answered.add(client)
        self.store.put(client, state)
        self.tally.count([work])
        self.tally.up = self.tally.up + up.payload(self.task.names(self.task.group_of(client)).buffers)
        return Reply(client, n, up)


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
