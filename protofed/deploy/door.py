"""The public port: clients' calls pass, everything else ends here.

Flower serves three interfaces with one web application: Fleet, which clients use; Control, with which runs
are submitted and keys registered; and Runtime, for its own processes. Node authentication covers the first
alone. So the application is served on two sockets: one on loopback, for all three; and the public one, behind
this door, which passes the calls of Fleet by their exact paths. What a call is allowed follows from the
socket on which it came, never from anything that it says.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

MOST_BYTES = 64 * 2**20  # of a request: Flower sends larger objects in pieces of 5 MiB
DIGITS = 12  # of the number that says how long it is
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Door:
    """A web application (ASGI) in front of Flower's."""

    def __init__(self, app: Application, inside: int, paths: Collection[str]):
        self.app = app
        self.inside = inside  # the port on loopback
        self.paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, or answer it with an error that says nothing."""
        if scope["type"] == "lifespan" or self._from_inside(scope):
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        status = self._refusal(scope)
        if status is None:
            return await self.app(scope, receive, send)
        await send({"type": "http.response.start", "status": status, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b""})

    def _from_inside(self, scope: Scope) -> bool:
        """By the address of our own end of the connection; unknown means outside."""
        return tuple(scope.get("server") or ()) == ("127.0.0.1", self.inside)

    def _refusal(self, scope: Scope) -> int | None:
        if scope["method"] != "POST" or scope["path"] not in self.paths or scope.get("root_path"):
            return 404
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if len(lengths) != 1 or not lengths[0].isdigit():
            return 411
        return 413 if len(lengths[0]) > DIGITS or int(lengths[0]) > MOST_BYTES else None


def fleet_paths() -> set[str]:
    """The calls of Flower's Fleet interface."""
    from flwr.superlink.routers.fleet.router import router

    return {route.path for route in router.routes}  # type: ignore[attr-defined]


def listen_on(host: str, port: int) -> socket.socket:
    """A socket that accepts connections there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=2048)
