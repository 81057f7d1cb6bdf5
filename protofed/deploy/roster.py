"""Who is connected: every new node is asked who it is, and told the agreement once there is one.

With keys, Flower knows each node under the name with which its public key was registered; a client that
calls itself otherwise is refused. Without keys (insecure) the word of the client counts.

Nobody waits for a node. A hello is sent, and its answer is there at a later look, or it is not. A client that
did not answer in time is lost until it says hello again; one that was refused is asked again after a while,
so that it gets in once it has been corrected.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..core.errors import ConfigError, EngineError, MessageError
from ..core.outside import SAID, reading, shown
from ..core.version import VERSION
from ..flower.link import Letters
from ..flower.packet import Meta, Packet
from .agreement import Agreement, Member, parse_member
from .place import place_of

HELLO_SECONDS = 180.0  # ten clients that share two cores need as much for theirs
AGAIN_SECONDS = 15.0  # before a node that was refused is asked again
log = logging.getLogger("protofed")


class Connected(NamedTuple):
    """A node as Flower knows it: the name and the key with which it was registered, and since when."""

    name: str
    since: str
    key: bytes


NOBODY = Connected("", "", b"")


class Roster:
    """Nodes and members by client id. `check` raises ConfigError for a member that does not fit. With
    `secure` clients are asked for the keys of the others."""

    def __init__(
        self,
        grid: Any,
        clients: list[str],
        named_by_key: bool,
        watch: Callable[..., None],
        keys: Mapping[str, bytes] | None = None,
        check: Callable[[Member], None] = lambda member: None,
        secure: bool = False,
    ):
        self.grid = grid
        self.clients = clients  # by number; once a run has begun, its own
        self.allowed = set(clients)
        self.named_by_key = named_by_key
        self.keys = dict(keys or {})  # public ones (PEM), by the names of clients
        self.watch = watch
        self.check = check
        self.secure = secure  # clients must have each other's keys
        self.agreement: Agreement | None = None
        self.members: dict[int, Member] = {}
        self._peers = False
        self._letters = Letters(grid)
        self._nodes: dict[int, int] = {}
        self._told: set[int] = set()  # nodes that know the agreement
        self._online: dict[int, Connected] = {}  # by node
        self._refused: dict[int, tuple[float, str]] = {}  # by node: when, and why

    def begin(self, agreement: Agreement, peers: bool = False) -> None:
        """From now on clients have the numbers of this agreement; those who left server.toml stay out. With
        `peers`, clients are told the architectures of all: see place.py."""
        self.agreement, self._peers = agreement, peers
        self.clients = [member.name for member in agreement.members]

    def wait(self, seconds: float) -> list[Member]:
        """All members, once every client has said hello."""
        self._until(len(self.clients), seconds)
        missing = self._missing(self._present())
        if missing:
            raise EngineError(f"{', '.join(missing)} did not join within {seconds:.0f} s{self._reasons()}")
        return [self.members[number] for number in range(len(self.clients))]

    def current(self, needed: int = 0, seconds: float = 0) -> dict[int, int]:
        """Node of each connected client, once there are `needed`, or the time is over."""
        self._until(needed, seconds)
        return self._present()

    def lost(self, client: int) -> None:
        """The client did not answer: nobody waits for it until it says hello again."""
        node = self._nodes.pop(client, None)
        if node is not None:
            self._letters.forget(node)
            self._told.discard(node)
            self.watch(lost=self.clients[client])

    def refresh(self) -> None:
        """Greet nodes that are new; tell the agreement to those who have not heard it; read the answers."""
        self._look()
        for node in sorted(self._online.keys() - set(self._nodes.values())):
            asked_late = time.monotonic() < self._refused.get(node, (0.0, ""))[0] + AGAIN_SECONDS
            if not asked_late and not self._letters.waits_for(node):
                self._letters.send(node, Packet(self._hello(), {}), HELLO_SECONDS)
        self._collect()
        if self.agreement is not None:
            for client, node in self._nodes.items():
                if node in self._online and node not in self._told and not self._letters.waits_for(node):
                    text = place_of(self.agreement, client, self._peers).to_json()
                    self._letters.send(
                        node, Packet({"kind": "agreement", "agreement": text}, {}), HELLO_SECONDS
                    )
            self._collect()

    def _hello(self) -> Meta:
        peers: Meta = {"peers": json.dumps(self.clients)} if self.secure else {}
        return {"kind": "hello", "protofed": VERSION, **peers}

    def _until(self, needed: int, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            self.refresh()
            present = self._present()
            self.watch(missing=self._missing({c: n for c, n in self._nodes.items() if n in self._online}))
            if len(present) >= needed or time.monotonic() > end:
                return
            time.sleep(0.5)

    def _present(self) -> dict[int, int]:
        ready = self._online.keys() if self.agreement is None else self._online.keys() & self._told
        return {client: node for client, node in self._nodes.items() if node in ready}

    def _missing(self, present: dict[int, int]) -> list[str]:
        return [name for number, name in enumerate(self.clients) if number not in present]

    def _reasons(self) -> str:
        reasons = {why for _, why in self._refused.values()}
        return "".join(f"; refused: {why}" for why in sorted(reasons))

    def _look(self) -> None:
        """Who is connected; a node that came back is asked anew."""
        online = {
            info.node_id: Connected(info.name, info.last_activated_at, info.public_key)
            for info in self.grid.get_nodes()
        }
        changed = {node for node, known in self._online.items() if online.get(node) != known}
        for node in changed:
            self._letters.forget(node)
            self._refused.pop(node, None)
        for client in [client for client, node in self._nodes.items() if node in changed]:
            self.lost(client)
        self._online = online

    def _collect(self) -> None:
        for node, reply in self._letters.collect():
            if isinstance(reply, str):
                self._refuse(node, reply)
            elif reply.meta.get("kind") == "hello":
                self._greet(node, reply)
            elif reply.meta.get("kind") == "agreement":
                if "error" in reply.meta:
                    self._refuse(node, f"it did not take the agreement: {str(reply.meta['error'])[:SAID]}")
                else:
                    self._told.add(node)

    def _greet(self, node: int, reply: Packet) -> None:
        try:
            if "error" in reply.meta:
                raise MessageError(str(reply.meta["error"])[:SAID])
            _check_version(reply.meta.get("protofed"))
            with reading("its hello"):
                member = parse_member(reply.meta.get("member"))
            self._check_name(node, member.name)
            client = self.clients.index(member.name)
            if self.agreement is None:
                self.check(member)
            elif self.agreement.members[client] != member:
                raise MessageError(f"{member.name} is not what it was when the run began: {member}")
        except (MessageError, ConfigError) as error:
            self._refuse(node, str(error))
            return
        self._refused.pop(node, None)
        self.members[client] = member
        self._nodes[client] = node
        self.watch(joined=member.name, model=member.model, samples=member.train)

    def _refuse(self, node: int, why: str) -> None:
        """It is told and noted once, also where the same is found again and again."""
        for client in [client for client, known in self._nodes.items() if known == node]:
            del self._nodes[client]
        if self._refused.get(node, (0.0, ""))[1] != why:
            name = self._online.get(node, NOBODY).name
            log.warning("node %d (%s) is refused: %s", node, name, why)
            self.watch(refused=why, node=node, key=name)
            if node in self._online:
                self._letters.send(node, Packet({"kind": "refused", "reason": why}, {}), AGAIN_SECONDS)
        self._refused[node] = (time.monotonic(), why)

    def _check_name(self, node: int, name: str) -> None:
        if name not in self.allowed:
            raise MessageError(f"client {name!r} is not in server.toml")
        if name not in self.clients:
            raise MessageError(f"client {name!r} came to server.toml after this run had begun: the next one")
        if self.named_by_key:
            known = self._online.get(node, NOBODY)
            if known.name != name:
                raise MessageError(f"it calls itself {name!r}, but its key is registered as {known.name!r}")
            if name in self.keys and known.key != self.keys[name]:
                raise MessageError(f"it has another key than the one with which {name} is in this run")


def _check_version(theirs: Any) -> None:
    if theirs != VERSION:
        told = "an earlier version" if theirs is None else shown(theirs).strip("'\"")
        raise MessageError(f"it has protofed {told}, the server {VERSION}: install the same on both")
