"""The server's inbox: what clients answered is checked and counted before a method reads it.

Answers that are ready together are checked together: their rows are joined once, the test for shapes and
finite values runs over the joined rows, and a method that sums per class reads the same joined rows. Worker
processes join uploads on their side. Where the test fails, each upload is checked alone, and the guilty one
is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ..core.algorithm import Leg
from ..core.client import ClientState, Outcome, Work
from ..core.errors import MessageError
from ..core.record import Block, Payload, Record, Reply, Tree
from ..core.stages import is_stage
from ..core.task import Task
from .base import Answer, Bundle, Failure
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
    answered: set[int] = field(default_factory=set)

    def read(self, answers: Iterable[Answer], together: bool) -> Iterator[Block]:
        """Accepted replies: in blocks if answers come together, else each as soon as it is there."""
        for some in _gathered(answers, TOGETHER if together else 1):
            block = self._bundle(some) if isinstance(some, Bundle) else self._all(some)
            if block:
                yield block

    @is_stage("checks")
    def _bundle(self, bundle: Bundle) -> Block:
        """Uploads that came joined. The replies are cut out only if the method looks at single ones."""
        clients, counts, joined, states, works = bundle
        if not self.leg.up.sound(joined, self.task.sizes):
            ups = self.leg.up.cut(joined)
            return self._each([Outcome(*one) for one in zip(clients, counts, ups, states, works)])
        self._note(clients, states, works, _payload(joined.fields))

        def replies() -> list[Reply]:
            return [Reply(*one) for one in zip(clients, counts, self.leg.up.cut(joined))]

        return Block.lazy(len(clients), replies, joined.fields)

    @is_stage("checks")
    def _all(self, answers: list[Outcome | Failure]) -> Block:
        """Checked together; where something is not as it should be, each alone."""
        outcomes = [a for a in answers if isinstance(a, Outcome) and type(a.up) is self.leg.up]
        joined = None
        if 1 < len(outcomes) == len(answers):
            joined = self.leg.up.join([outcome.up for outcome in outcomes], self.task.sizes)
        if joined is None:
            return self._each(answers)
        clients, counts, ups, states, works = zip(*outcomes)
        self._note(clients, states, works, _payload(joined.fields))
        return Block(map(Reply, clients, counts, ups), joined.fields)

    def _each(self, answers: Sequence[Outcome | Failure]) -> Block:
        block = []
        for answer in answers:
            problem = answer if isinstance(answer, Failure) else self._problem(answer)
            if problem is not None:
                if self.on_failure == "stop":
                    raise MessageError(problem.reason)
                self.tally.failures.append(problem)
                continue
            assert isinstance(answer, Outcome)
            client, n, up, state, work = answer
            buffers = self.task.names(self.task.group_of(client)).buffers
            self._note((client,), (state,), (work,), up.payload(buffers))
            block.append(Reply(client, n, up))
        return Block(block)

    def _note(
        self, clients: Sequence[int], states: Iterable[ClientState], works: Iterable[Work], payload: Payload
    ) -> None:
        """Commit and count what was accepted."""
        self.answered.update(clients)
        for client, state in zip(clients, states):
            self.store.put(client, state)
        self.tally.count(works)
        self.tally.up = self.tally.up + payload

    def _problem(self, outcome: Outcome) -> Failure | None:
        who = f"{self.task.algorithm.name}: round {self.round}: upload of client {outcome.client}"
        try:
            if type(outcome.up) is not self.leg.up:
                wanted, got = self.leg.up.__name__, type(outcome.up).__name__
                raise MessageError(f"{who}: expected {wanted}, got {got}")
            outcome.up.check(self.task.sizes, who)
        except MessageError as error:
            hint = "; training diverged (lower lr), or BatchNorm's statistics have seen too few steps"
            return Failure(outcome.client, str(error) + (hint if "not finite" in str(error) else ""))
        return None


def _gathered(answers: Iterable[Answer], most: int) -> Iterator[Bundle | list[Outcome | Failure]]:
    """Lists of at most `most` answers, fewer if uploads are large (the first tells how large); bundles
    as they are."""
    some: list[Outcome | Failure] = []
    room = most
    for answer in answers:
        if isinstance(answer, Bundle):
            yield answer
            continue
        if not some and most > 1:
            room = min(most, TOGETHER_BYTES // _nbytes(answer)) if isinstance(answer, Outcome) else most
        some.append(answer)
        if len(some) >= room:
            yield some
            some = []
    if some:
        yield some


def _nbytes(outcome: Outcome) -> int:
    return max(1, outcome.up.payload().bytes) if isinstance(outcome.up, Record) else 1


def _payload(joined: Tree) -> Payload:
    floats = sum(t.numel() for t in joined.values() if t.is_floating_point())
    return Payload(floats, sum(t.nbytes for t in joined.values() if not t.is_floating_point()))
