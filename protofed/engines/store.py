"""Clients' private states between rounds. Only clients that ever took part have one."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..core.answer import ClientState
from ..core.errors import RunError
from ..core.record import Tree
from ..core.tensor_file import of_bytes, to_bytes

LIMIT_BYTES = 4 * 1024**3


class Store:
    """States in memory; beyond a limit the longest unused ones wait on disk.

    `changed` names the clients whose state is new since the last checkpoint.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.changed: set[int] = set()
        self._limit = limit_bytes
        self._states: OrderedDict[int, ClientState] = OrderedDict()
        self._bytes = 0
        self._folder: Path | None = None
        self._on_disk: set[int] = set()  # their file is the newest state, also if memory has it too

    def get(self, client: int) -> ClientState | None:
        """The client's state; None before its first round."""
        if client in self._states:
            self._states.move_to_end(client)
        elif client in self._on_disk:
            self._hold(client, self._read(client))
        return self._states.get(client)

    def put(self, client: int, state: ClientState) -> None:
        """A new state; an empty one counts only in place of another."""
        self.put_all((client,), (state,))

    def put_all(self, clients: Iterable[int], states: Iterable[ClientState]) -> None:
        """The new states of many clients; where the server stores nothing, one look at each."""
        for client, state in zip(clients, states):
            if state.kept or state.mem or client in self._states or client in self._on_disk:
                self.changed.add(client)
                self._on_disk.discard(client)
                self._hold(client, state)

    def drop(self, client: int) -> None:
        """Forget a client's state."""
        self._on_disk.discard(client)
        if client in self._states:
            self._bytes -= _nbytes(self._states.pop(client))

    def __iter__(self) -> Iterator[int]:
        return iter(sorted({*self._states, *self._on_disk}))

    def __len__(self) -> int:
        return len(self._on_disk | self._states.keys())

    def _hold(self, client: int, state: ClientState) -> None:
        if client in self._states:
            self._bytes -= _nbytes(self._states.pop(client))
        self._states[client] = state
        self._bytes += _nbytes(state)
        while self._bytes > self._limit and len(self._states) > 1:
            oldest, old = self._states.popitem(last=False)
            self._bytes -= _nbytes(old)
            if oldest not in self._on_disk:
                self._write(oldest, old)

    def _path(self, client: int) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="protofed-clients-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder / f"{client}.safetensors"

    def _write(self, client: int, state: ClientState) -> None:
        kept = {f"kept/{name}": tensor for name, tensor in state.kept.items()}
        mem = {f"mem/{name}": tensor for name, tensor in state.mem.items()}
        try:
            self._path(client).write_bytes(to_bytes({**kept, **mem}))
        except OSError as error:
            raise RunError(
                f"cannot keep the state of client {client} on disk: {error.strerror or error}; "
                "free space in the folder for temporary files (TMPDIR)"
            ) from error
        self._on_disk.add(client)

    def _read(self, client: int) -> ClientState:
        arrays = of_bytes(self._path(client).read_bytes())
        return ClientState(_under("kept/", arrays), _under("mem/", arrays))


def _under(prefix: str, arrays: Tree) -> Tree:
    return {name.removeprefix(prefix): t for name, t in arrays.items() if name.startswith(prefix)}


def _nbytes(state: ClientState) -> int:
    return sum(t.nbytes for t in state.kept.values()) + sum(t.nbytes for t in state.mem.values())
