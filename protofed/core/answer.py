"""What a client answers: to a leg `Reply` (many at once: `Block`) or `Failure`, to a test `Score`.

These are the messages between the round loop and the clients, the same on every engine: handed over within a
process, pickled between processes, packed between machines (flower/messages.py). `Replies` is what a method's
`aggregate` reads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, overload

import torch
from torch import Tensor

from .fields import Joined, cut, join, still_sound
from .record import Payload, Record, Tree


@dataclass(frozen=True)
class ClientState:
    """What stays at a client between rounds: kept tensors and the method's private memory."""

    kept: Tree = field(default_factory=dict)
    mem: Tree = field(default_factory=dict)


class Work(NamedTuple):
    """What local training did."""

    steps: int = 0
    samples: int = 0
    loss: float = math.nan  # mean over steps; nan without steps


class Reply(NamedTuple):
    """A client's answer to one leg: who, the number of training samples there, and the upload.

    `state` and `work` are for the round loop, which takes them out: methods see none of them.
    """

    client: int
    n: int
    up: Any  # the leg's `up` record
    state: ClientState = ClientState()
    work: Work = Work()


class Failure(NamedTuple):
    """A client whose work does not count, and why."""

    client: int
    reason: str


class Block(Sequence[Reply]):
    """Replies that came together, their uploads joined row by row: one check and one sum serve them all.

    Single replies are cut out only if somebody reads them.
    """

    def __init__(
        self,
        kind: type[Record],
        clients: Sequence[int],
        n: Sequence[int],
        joined: Joined,
        states: Sequence[ClientState] = (),
        works: Sequence[Work] = (),
    ):
        self.kind = kind
        self.clients = clients
        self.n = n
        self.joined = joined
        self.states = states
        self.works = works

    @classmethod
    def join(cls, kind: type[Record], replies: Sequence[Reply], sizes: Mapping[str, int]) -> Block | None:
        """These replies as a block; None if an upload may break its declaration, or cannot be joined."""
        if len(replies) < 2 or any(type(reply.up) is not kind for reply in replies):
            return None
        joined = join(kind.specs(), [reply.up for reply in replies], sizes)
        if joined is None:
            return None
        clients, n, _, states, works = zip(*replies)
        return cls(kind, clients, n, joined, states, works)

    def sound(self, sizes: Mapping[str, int]) -> bool:
        """Whether all uploads keep to their declaration and are finite."""
        return still_sound(self.kind.specs(), self.joined, sizes)

    def payload(self) -> Payload:
        """What all uploads carry together. (Joined records have no trees, so no buffers.)"""
        tensors = self.joined.fields.values()
        floats = sum(t.numel() for t in tensors if t.is_floating_point())
        return Payload(floats, sum(t.nbytes for t in tensors if not t.is_floating_point()))

    def for_method(self) -> Block:
        """The same uploads without what methods do not see."""
        return Block(self.kind, self.clients, self.n, self.joined)

    def _cut(self) -> list[Reply]:
        ups = [self.kind(**fields) for fields in cut(self.kind.specs(), self.joined)]
        states = self.states or itertools.repeat(ClientState())
        works = self.works or itertools.repeat(Work())
        return list(map(Reply, self.clients, self.n, ups, states, works))

    def __len__(self) -> int:
        return len(self.clients)

    def __iter__(self) -> Iterator[Reply]:
        return iter(self._cut())

    @overload
    def __getitem__(self, index: int) -> Reply: ...
    @overload
    def __getitem__(self, index: slice) -> list[Reply]: ...
    def __getitem__(self, index: int | slice) -> Reply | list[Reply]:
        return self._cut()[index]


Answer: TypeAlias = Reply | Block | Failure


class Replies:
    """The accepted uploads of one leg, to be read once.

    Iterate where the order does not matter: replies then stream, and memory does not grow with their
    number. `all()` gives a list sorted by client, for steps whose result depends on the order.
    """

    def __init__(self, replies: Iterable[Reply]):
        self._blocks: Iterator[Sequence[Reply]] = ([reply] for reply in replies)
        self._used = False

    @classmethod
    def of_blocks(cls, blocks: Iterator[Sequence[Reply]]) -> Replies:
        """Replies that come many at a time."""
        replies = cls(())
        replies._blocks = blocks
        return replies

    def __iter__(self) -> Iterator[Reply]:
        return itertools.chain.from_iterable(self.blocks())

    def blocks(self) -> Iterator[Sequence[Reply]]:
        """As they arrived: one by one, or many together."""
        if self._used:
            raise RuntimeError("replies can be read once: keep what you need")
        self._used = True
        return self._blocks

    def drain(self) -> None:
        """Let come what was not read."""
        for _ in self._blocks:
            pass

    def all(self) -> list[Reply]:
        """Sorted by client."""
        return sorted(self, key=lambda reply: reply.client)


def blocks(replies: Replies | list[Reply], size: int = 64) -> Iterator[Sequence[Reply]]:
    """Replies in lists of about `size`, so that sums run over joined rows."""
    waiting: list[Reply] = []
    parts: Iterable[Sequence[Reply]] = replies.blocks() if isinstance(replies, Replies) else [replies]
    for part in parts:
        if isinstance(part, Block) and not waiting:
            yield part
            continue
        for reply in part:
            waiting.append(reply)
            if len(waiting) == size:
                yield waiting
                waiting = []
    if waiting:
        yield waiting


def cat(replies: Sequence[Reply], *fields: str) -> list[Tensor]:
    """The named fields of all replies, rows joined. Not to be changed in place."""
    ready = replies.joined.fields if isinstance(replies, Block) else {}
    return [
        ready[field] if field in ready else torch.cat([getattr(reply.up, field) for reply in replies])
        for field in fields
    ]


class Signs(NamedTuple):
    """What tells, beside accuracy, whether a client's model has learned anything: a few numbers."""

    guesses: dict[str, int]  # mode → test samples in the class predicted most
    majority: int = 0  # test samples of the class that has most of them
    own: int = 0  # classes among the training samples
    few: int = 0  # of these, classes with one or two samples
    spread: float = math.nan  # of the embeddings of test samples; 0: all are equal


class Score(NamedTuple):
    """Test result of one client. `confusion` [C, C] per mode (rows: truth) only for dense labels, and where
    the task asks for it (`by_class`)."""

    client: int
    n: int
    correct: dict[str, int]
    loss: float
    confusion: dict[str, Tensor]
    signs: Signs = Signs({})


def confusion_matrix(predicted: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Counts [C,C], rows truth, columns prediction; negative labels are void. Add matrices to pool them."""
    valid = labels >= 0
    pairs = labels[valid] * classes + predicted[valid]
    return torch.bincount(pairs, minlength=classes**2).reshape(classes, classes)
