"""One message between server and client, before it becomes Flower's, and who carries it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from ..core.record import Tree

SCHEMA = 4  # of meta data and buffer; a message of another version is refused
Value = str | int | float | bool
Meta = dict[str, Value]


class Packet(NamedTuple):
    """Meta data, tensors, and the precision in which the floats travel."""

    meta: Meta
    arrays: Tree
    precision: str = "full"
    wire_bytes: int = 0  # serialised size; set on what was received


class Exchanged(NamedTuple):
    """What came back by client: packets, and reasons where nothing usable came."""

    replies: dict[int, Packet]
    failures: dict[int, str]
    wire_down: int = 0  # serialised bytes sent
    silent: frozenset[int] = frozenset()  # clients of whom nothing came: not connected, or too late


class Link(Protocol):
    """Whatever carries packets to clients and back."""

    def exchange(self, packets: Mapping[int, Packet], timeout: float) -> Exchanged:
        """Send one packet to each client; wait until all answered or the time is over."""
        ...

    def close(self) -> None:
        """Free what the link holds."""
        ...
