"""Exchange over a Flower grid: messages out, replies matched by the message they answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from flwr.app import ArrayRecord, Message, MessageType
from flwr.serverapp import Grid

from ..core.errors import MessageError
from ..core.outside import SAID, reading
from .codec import arrays_of, decode, encode, size
from .packet import Exchanged, Packet

POLL_SECONDS = 0.1
TYPES = {"train": MessageType.TRAIN, "evaluate": MessageType.EVALUATE}  # all else is a query


class GridLink:
    """Clients behind a Flower grid. `nodes` tells which node a client is on just now."""

    def __init__(self, grid: Grid, nodes: Callable[[], Mapping[int, int]], poll: float = POLL_SECONDS):
        self.grid = grid
        self.nodes = nodes
        self.poll = poll

    def exchange(self, packets: Mapping[int, Packet], timeout: float) -> Exchanged:
        nodes = self.nodes()
        failures = {c: f"client {c}: not connected" for c in packets if c not in nodes}
        present = {c: packet for c, packet in packets.items() if c in nodes}
        asked, wire = self._push(present, nodes, timeout)
        failures |= {c: f"client {c}: Flower took no message for it" for c in present.keys() - asked.values()}
        replies: dict[int, Packet] = {}
        for client, message in self._pull(asked, timeout):
            try:
                with reading("the message"):
                    replies[client] = _read(message)
            except MessageError as error:
                failures[client] = f"client {client}: {error}"
        return Exchanged(dict(sorted(replies.items())), failures, wire)

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
        end = time.monotonic() + timeout
        while waiting and time.monotonic() < end:
            for message in self.grid.pull_messages(list(waiting)):
                client = waiting.pop(message.metadata.reply_to_message_id, None)
                if client is not None:
                    yield client, message
            if waiting:
                time.sleep(self.poll)


def _read(message: Message) -> Packet:
    if message.has_error():
        raise MessageError(
            f"Flower reports error {message.error.code}: {str(message.error.reason or 'no reason')[:SAID]}"
        )
    return decode(message.content)
