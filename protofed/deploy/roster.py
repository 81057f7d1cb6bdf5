"""Who is connected: every new node is asked who it is, and told the agreement once there is one.

With keys, Flower knows each node under the name with which its public key was registered; a client that
calls itself otherwise is refused. Without keys (insecure) the word of the client counts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..core.errors import EngineError, MessageError
from ..core.outside import SAID, reading
from ..flower.link import GridLink
from ..flower.packet import Meta, Packet
from .agreement import Agreement, Member, parse_member
from .place import place_of

HELLO_SECONDS = 120.0
log = logging.getLogger("protofed")


class Roster:
    """Nodes and members by client id."""

    def __init__(
        self,
        grid: Any,
        clients: list[str],
        named_by_key: bool,
        watch: Callable[..., None],
        keys: Mapping[str, bytes] | None = None,
    ):
        self.grid = grid
        self.clients = clients  # by number; once a run has begun, its own
        self.allowed = set(clients)
        self.named_by_key = named_by_key
        self.keys = dict(keys or {})  # public ones (PEM), by the names of clients
        self.watch = watch
        self.agreement: Agreement | None = None
        self.members: dict[int, Member] = {}
        self._nodes: dict[int, int] = {}
        self._told: set[int] = set()  # nodes that know the agreement
        self._refused: set[int] = set()
        self._peers = False

    def begin(self, agreement: Agreement, peers: bool = False) -> None:
        """From now on clients have the numbers of this agreement; those who left server.toml stay out. With
        `peers`, clients are told the architectures of all: see place.py."""
        self.agreement, self._peers = agreement, peers
        self.clients = [member.name for member in agreement.members]

    def wait(self, seconds: float) -> list[Member]:
        """All members, once every client has said hello."""
        end = time.monotonic() + seconds
        while True:
            self.refresh()
            missing = [name for number, name in enumerate(self.clients) if number not in self.members]
            self.watch(missing=missing)
            if not missing:
                return [self.members[number] for number in range(len(self.clients))]
            if time.monotonic() > end:
                raise EngineError(f"{', '.join(missing)} did not join within {seconds:.0f} s")
            time.sleep(1)

    def current(self) -> dict[int, int]:
        """Node of each connected client."""
        self.refresh()
        online = set(self.grid.get_node_ids())
        found = {client: node for client, node in self._nodes.items() if node in online}
        self.watch(missing=[name for number, name in enumerate(self.clients) if number not in found])
        return found

    def refresh(self) -> None:
        """Greet nodes that are new; tell the agreement to those who have not heard it."""
        online = set(self.grid.get_node_ids()) - self._refused
        new = sorted(online - set(self._nodes.values()))
        for node, reply in self._ask({node: {"kind": "hello"} for node in new}).items():
            self._greet(node, reply)
        if self.agreement is not None:
            untold = {n: c for c, n in self._nodes.items() if n in online and n not in self._told}
            parts = {node: self._part(self.agreement, client) for node, client in untold.items()}
            for node, reply in self._ask(parts).items():
                if "error" in reply.meta:
                    log.warning(
                        "node %d did not take the agreement: %s", node, str(reply.meta["error"])[:SAID]
                    )
                else:
                    self._told.add(node)

    def _part(self, agreement: Agreement, client: int) -> Meta:
        """What this client is told of the agreement, which is not all of it."""
        return {"kind": "agreement", "agreement": place_of(agreement, client, self._peers).to_json()}

    def _ask(self, questions: Mapping[int, Meta]) -> dict[int, Packet]:
        if not questions:
            return {}
        link = GridLink(self.grid, lambda: {node: node for node in questions})
        got = link.exchange({node: Packet(dict(meta), {}) for node, meta in questions.items()}, HELLO_SECONDS)
        for node, reason in got.failures.items():
            log.warning("node %d: %s", node, reason)
        return got.replies

    def _greet(self, node: int, reply: Packet) -> None:
        try:
            if "error" in reply.meta:
                raise MessageError(str(reply.meta["error"])[:SAID])
            with reading("its hello"):
                member = parse_member(reply.meta.get("member"))
            self._check_name(node, member.name)
            client = self.clients.index(member.name)
            if self.agreement is not None and self.agreement.members[client] != member:
                raise MessageError(f"{member.name} is not what it was when the run began: {member}")
        except (MessageError, ValueError) as error:
            log.warning("node %d is refused: %s", node, error)
            self.watch(refused=str(error))
            self._refused.add(node)
            return
        self.members[client] = member
        self._nodes[client] = node
        self.watch(joined=member.name, model=member.model, samples=member.train)

    def _check_name(self, node: int, name: str) -> None:
        if name not in self.allowed:
            raise MessageError(f"client {name!r} is not in server.toml")
        if name not in self.clients:
            raise MessageError(f"client {name!r} came to server.toml after this run had begun: the next one")
        if self.named_by_key:
            known = {info.node_id: info for info in self.grid.get_nodes()}.get(node)
            registered = None if known is None else known.name
            if registered != name:
                raise MessageError(f"it calls itself {name!r}, but its key is registered as {registered!r}")
            if name in self.keys and (known is None or known.public_key != self.keys[name]):
                raise MessageError(f"it has another key than the one with which {name} is in this run")
