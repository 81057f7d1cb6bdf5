"""Time and memory of a round against the number of participants, and of registered clients.

A small network and few samples, so that what grows is the federation and not the training. Each point runs
in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from protofed.algorithms.fedproto import FedProto
from protofed.core.data import LocalData, without_samples
from protofed.core.task import Group, Task
from protofed.engines.cohort import Cohort
from protofed.engines.federation import Federation
from protofed.engines.sampling import Rounds
from protofed.engines.store import Store
from protofed.models.base import Model

from .machine import Span, child_environment, interleaved, memory_mb

PARTICIPANTS = (10, 100, 1_000, 10_000)
REGISTERED = (1_000, 10_000, 100_000, 1_000_000)
SAMPLED = 100  # participants where registered clients grow
FEATURES, WIDTH, DIM, CLASSES, SAMPLES = 64, 32, 16, 10, 32
DIFFERENT = 50  # data sets; clients share them, so that data take no memory


class SharedData:
    """Any number of clients, each with one of a few data sets."""

    def __init__(self, clients: int):
        self._clients = clients
        generator = torch.Generator().manual_seed(0)
        self._sets = [
            LocalData(
                torch.randn(SAMPLES, FEATURES, generator=generator),
                torch.randint(CLASSES, (SAMPLES,), generator=generator),
            )
            for _ in range(min(DIFFERENT, clients))
        ]

    def __len__(self) -> int:
        return self._clients

    def size(self, client: int) -> int:
        return SAMPLES

    def train(self, client: int) -> LocalData:
        return self._sets[client % len(self._sets)]

    def test(self, client: int) -> LocalData:
        return self.train(client)

    def validation(self, client: int) -> LocalData:
        return without_samples(self.train(client))


def scale(
    participants: Sequence[int],
    registered: Sequence[int],
    rounds: int,
    tell: Callable[[str], None],
    apart: bool = True,
) -> dict[str, Any]:
    """Points of both curves; `apart` in processes of their own."""
    sampled = min(SAMPLED, *registered)

    def measured(clients: int, some: int) -> dict[str, Any]:
        tell(f"scale: {some:,} of {clients:,} clients")
        return _apart(clients, some, rounds) if apart else point(clients, some, rounds)

    return {
        "sampled": sampled,
        "rounds": rounds,
        "participants": [measured(count, count) for count in participants],
        "registered": [measured(count, sampled) for count in registered],
    }


def point(clients: int, sampled: int, rounds: int) -> dict[str, Any]:
    """Some rounds in this process: median seconds, and the peak memory above that of a bare start."""
    torch.set_num_threads(1)
    before = memory_mb("VmRSS")
    federation = federation_of(clients, sampled)
    turns = interleaved({"round": federation.play}, rounds)["round"]
    return {
        "registered": clients,
        "participants": sampled,
        **Span.of([turn.wall for turn in turns]).named("seconds"),
        **Span.of([turn.cpu for turn in turns]).named("cpu_seconds"),
        "peak_mb": memory_mb("VmHWM"),
        "own_mb": memory_mb("VmHWM") - before,
    }


def federation_of(clients: int, sampled: int) -> Federation:
    """So many clients of which some take part; the group of each is held as a run holds it."""
    task = Task(FedProto(), [Group("mlp", _model)], np.full(clients, 0), CLASSES, (DIM,), batch_size=8)
    data = SharedData(clients)
    return Federation(task, data, Cohort(task, data, Store()), Rounds(sample=sampled))


def _apart(clients: int, sampled: int, rounds: int) -> dict[str, Any]:
    return in_a_process("scale", "point", clients, sampled, rounds)


def in_a_process(module: str, function: str, *numbers: int) -> dict[str, Any]:
    """What a function of these benchmarks gives in a process of its own, with memory of its own."""
    code = f"import json, sys; from benchmarks.{module} import {function} as work; "
    code += "sys.stdout.write(json.dumps(work(*map(int, sys.argv[1:]))))"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, numbers)],
        check=True,
        capture_output=True,
        text=True,
        env=child_environment(),
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _model() -> nn.Module:
    base = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, DIM))
    return Model(base, nn.Linear(DIM, CLASSES))
