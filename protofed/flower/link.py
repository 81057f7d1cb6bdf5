"""Exchange over a Flower grid: messages out, replies matched by the message they answer.

`GridLink` waits for the replies of a leg, `Letters` for nothing: their answers are collected later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from flwr.app import ArrayRecord, Message, MessageType
from flwr.serverapp import Grid

from ..core.errors import MessageError
from ..core.outside import reading
from .codec import arrays_of, decode, encode, size
from .packet import Exchanged, Packet
from .patience import Patience
from .reading_mark import NoMark, ReadingMark

POLL_SECONDS, LONGEST_POLL = 0.05, 1.0  # between two looks for replies
TYPES = {"train": MessageType.TRAIN, "evaluate": MessageType.EVALUATE}  # all else is a query
GONE = (3, 4, 5)  # Flower's codes for messages, replies and nodes that are not available


class GridLink:
    """Clients behind a Flower grid. `nodes` tells which node a client is on just now; `lost` is told who did
    not answer in time; `mark` holds whose reply is being read."""

    def __init__(
        self,
        grid: Grid,
        nodes: Callable[[], Mapping[int, int]],
        poll: float = POLL_SECONDS,
        lost: Callable[[int], None] = lambda client: None,
        mark: ReadingMark | NoMark | None = None,
    ):
        self.grid = grid
        self.nodes = nodes
        self.poll = poll
        self.lost = lost
        self.mark = mark or NoMark()

    def exchange(self, packets: Mapping[int, Packet], timeout: float) -> Exchanged:
        """Replies, and why there is none: not connected, no reply in time, a reply that cannot be read."""
        failures = {c: why for c, packet in packets.items() if (why := self.mark.suspect(c, packet.meta))}
        nodes = self.nodes()
        silent = {c for c in packets if c not in nodes and c not in failures}
        failures |= {c: f"client {c}: not connected" for c in silent}
        present = {c: packet for c, packet in packets.items() if c not in failures}
        asked, wire = self._push(present, nodes, timeout)
        failures |= {c: f"client {c}: Flower took no message for it" for c in present.keys() - asked.values()}
        replies: dict[int, Packet] = {}
        heard: set[int] = set()
        for client, message in self._pull(asked, timeout):
            if not _gone(message):
                heard.add(client)
            try:
                with self.mark.reading(client, packets[client].meta), reading("the message"):
                    replies[client] = _read(message)
            except MessageError as error:
                failures[client] = f"client {client}: {error}"
        for client in sorted(set(asked.values()) - heard):
            self.lost(client)
        silent |= present.keys() - heard
        return Exchanged(dict(sorted(replies.items())), failures, wire, frozenset(silent))

    def close(self) -> None:
        """The grid ends with its run."""

    def _push(
        self, packets: Mapping[int, Packet], nodes: Mapping[int, int], timeout: float
    ) -> tuple[dict[str, int], int]:
        """Client by message id, and the serialised bytes. Messages do not outlive the timeout, so that a
        client that comes back late is not handed old work."""
        packed: dict[int, tuple[ArrayRecord, str]] = {}
        asked: dict[str, int] = {}
        wire = 0
        for client, packet in packets.items():
            shared = packed.setdefault(id(packet.arrays), arrays_of(packet))
            content = encode(packet, shared)
            wire += size(content)
            kind = TYPES.get(str(packet.meta["kind"]), MessageType.QUERY)
            message = Message(content, nodes[client], kind, ttl=timeout)
            asked |= {number: client for number in self.grid.push_messages([message]) if number}
        return asked, wire

    def _pull(self, asked: dict[str, int], timeout: float) -> Iterable[tuple[int, Any]]:
        """(client, reply) as they come. A second answer to the same message finds nobody waiting."""
        waiting = dict(asked)
        end, patience = time.monotonic() + timeout, Patience(self.poll, max(self.poll, LONGEST_POLL))
        while waiting and time.monotonic() < end:
            for message in self.grid.pull_messages(list(waiting)):
                client = waiting.pop(message.metadata.reply_to_message_id, None)
                if client is not None:
                    yield client, message
            if waiting:
                patience.sleep(most=end - time.monotonic())


class _Letter(NamedTuple):
    node: int
    until: float


class Letters:
    """Messages to nodes that nobody waits for: a node that is dead costs no time."""

    def __init__(self, grid: Grid):
        self.grid = grid
        self._open: dict[str, _Letter] = {}

    def send(self, node: int, packet: Packet, seconds: float) -> None:
        """Send it; it may be answered so long."""
        message = Message(encode(packet), node, MessageType.QUERY, ttl=seconds)
        for number in self.grid.push_messages([message]):
            if number:
                self._open[number] = _Letter(node, time.monotonic() + seconds)

    def waits_for(self, node: int) -> bool:
        """Whether an answer of the node may still come."""
        now = time.monotonic()
        return any(letter.node == node and now < letter.until for letter in self._open.values())

    def forget(self, node: int) -> None:
        """No answer of this node is expected any more."""
        self._open = {number: letter for number, letter in self._open.items() if letter.node != node}

    def collect(self) -> Iterator[tuple[int, Packet | str]]:
        """(node, answer or reason why there is none) of all that came since the last look."""
        now = time.monotonic()
        self._open = {number: letter for number, letter in self._open.items() if now < letter.until}
        if not self._open:
            return
        for message in self.grid.pull_messages(list(self._open)):
            letter = self._open.pop(message.metadata.reply_to_message_id, None)
            if letter is None or _gone(message):  # a node that went away is asked again when it is back
                continue
            try:
                with reading("the message"):
                    yield letter.node, _read(message)
            except MessageError as error:
                yield letter.node, str(error)


def _gone(message: Message) -> bool:
    return message.has_error() and message.error.code in GONE


def _read(message: Message) -> Packet:
    if message.has_error():
        raise MessageError(
            f"Flower reports error {message.error.code}: {message.error.reason or 'no reason'}"
        )
    return decode(message.content)
