"""Clients' private states between rounds. Only clients that ever took part have one."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.client import ClientState


class Store:
    """States in memory, with a note of which changed since the last checkpoint."""

    def __init__(self) -> None:
        self._states: dict[int, ClientState] = {}
        self.changed: set[int] = set()

    def get(self, client: int) -> ClientState | None:
        return self._states.get(client)

    def put(self, client: int, state: ClientState) -> None:
        if state.kept or state.mem:
            self._states[client] = state
            self.changed.add(client)

    def drop(self, client: int) -> None:
        self._states.pop(client, None)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._states))

    def __len__(self) -> int:
        return len(self._states)
