"""What clients' nets give for their test samples, found out before the test.

A test needs the newest server state, but where a client's whole model stays with it, its net's results do
not. A process that has nothing to do while others train, or while the server aggregates, makes them ahead;
the test then reads them. Nothing is assumed of the method: a result counts only if the test would run the
very same tensors, and who finds that tests do not ask for results makes no more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .answer import ClientState
from .data import LocalData
from .record import Tree
from .task import ClientTurn
from .train import set_modes

LIMIT_BYTES = 256 * 1024**2  # of results that wait for their test


@dataclass
class Results:
    """What one client's net gives, by chunk of the test samples; made of these tensors in these seconds."""

    tensors: Tree
    chunks: dict[int, Any] = field(default_factory=dict)
    seconds: float = 0.0


class Ahead:
    """Results that wait for their test."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._bytes = 0
        self._round = 0
        self._known: dict[int, Results] = {}
        self.wanted = True  # whether tests ask for them

    @torch.no_grad()
    def make(self, turn: ClientTurn, state: ClientState | None, test: LocalData) -> None:
        """Run the net of a client that keeps all of its tensors over its test samples."""
        if not self.wanted or turn.client in self._known or state is None or test.y.ndim > 1:
            return
        net = turn.task.live(turn.group)
        if any(name not in state.kept for name in net.named()):
            return
        started, found = time.process_time(), Results(state.kept)
        net.install(state.kept)
        set_modes(net, training=False)
        for number, (x, _) in enumerate(test.chunks()):
            if self._bytes > self._limit:
                break
            found.chunks[number] = net(x)
            self._bytes += _nbytes(found.chunks[number])
        found.seconds = time.process_time() - started
        self._known[turn.client] = found
        self._round = turn.round

    def made(self, turn: ClientTurn, state: ClientState | None, installed: Tree) -> Results:
        """What is known for a test of this state that runs the installed tensors."""
        found = self._known.get(turn.client)
        if found is None or turn.on != "test" or state is None:
            return Results({})
        if state.kept is not found.tensors:  # another state than was expected
            self.forget(turn.client)
            return Results({})
        if any(installed[name] is not tensor for name, tensor in found.tensors.items()):
            self.wanted = False  # what comes down changes the net
            return Results({})
        return found

    def forget(self, *clients: int) -> None:
        """These clients train again."""
        for client in clients:
            for out in self._known.pop(client, Results({})).chunks.values():
                self._bytes -= _nbytes(out)

    def new_round(self, number: int) -> None:
        """What was not asked for in the round before is of no use."""
        if number != self._round:
            self.forget(*self._known)


def _nbytes(out: Any) -> int:
    parts = out if isinstance(out, tuple | list) else (out,)
    return sum(part.nbytes for part in parts if isinstance(part, Tensor))
