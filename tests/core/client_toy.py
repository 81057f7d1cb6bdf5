"""A task of one small group, and methods to look into one client's leg with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from protofed.core.algorithm import Algorithm, Leg, Phase
from protofed.core.answer import ClientState, Reply
from protofed.core.client import run_leg
from protofed.core.data import LocalData
from protofed.core.optim import Opt
from protofed.core.record import Nothing, Tree, Weights
from protofed.core.rng import torch_generator
from protofed.core.task import ClientTurn, Group, Task
from protofed.models.base import Model

CLASSES, INPUTS, EMBEDDING = 3, 5, 4


@dataclass(frozen=True)
class Probe(Algorithm):
    """Cross-entropy; the upload's memory shows what the client started from and collected."""

    phases: tuple[Phase, ...] = (Phase(),)
    kept: tuple[str, ...] = ("",)
    name = "probe"

    @property
    def legs(self) -> tuple[Leg, ...]:
        return (Leg(down=Weights, up=Nothing, phases=self.phases),)

    @property
    def keep(self) -> tuple[str, ...]:
        return self.kept

    def loss(self, net: Any, batch: Any, view: Any) -> Any:
        z, logits = net(batch.x)
        one = torch.ones((), dtype=z.dtype)
        sums = {"all": one, "last": one * batch.last, "rows": batch.idx.sum().to(z.dtype)}
        return cross_entropy(logits, batch.y), sums

    def upload(self, net: Any, data: Any, down: Any, mem: Any, ran: Any, turn: Any) -> Any:
        seen = {f"start/{name}": tensor for name, tensor in ran.start.items()}
        seen |= {f"sum/{name}": tensor for name, tensor in ran.sums.items()}
        return Nothing(), seen | {"end/" + name: tensor for name, tensor in net.tensors().items()}


def plain() -> nn.Module:
    return Model(nn.Sequential(nn.Linear(INPUTS, EMBEDDING), nn.Tanh()), nn.Linear(EMBEDDING, CLASSES))


def norm() -> nn.Module:
    base = nn.Sequential(nn.Linear(INPUTS, EMBEDDING), nn.BatchNorm1d(EMBEDDING), nn.Dropout(0.5))
    return Model(base, nn.Linear(EMBEDDING, CLASSES))


def make_task(algorithm: Algorithm, build: Callable[[], nn.Module] = plain, **settings: Any) -> Task:
    settings = {"opt": Opt(0.1, 0.5), "batch_size": 4, "dtype": torch.float64, **settings}
    groups = [Group("toy", build)]
    return Task(algorithm, groups, np.zeros(3, dtype=np.int64), CLASSES, (EMBEDDING,), **settings)


def samples(n: int, key: str = "samples") -> LocalData:
    generator = torch_generator(key, n)
    x = torch.randn(n, INPUTS, generator=generator, dtype=torch.float64)
    return LocalData(x, torch.arange(n) % CLASSES)


def leg(
    task: Task,
    data: LocalData,
    state: ClientState | None = None,
    down: Tree | None = None,
    client: int = 1,
    round: int = 1,
    epochs: int = 1,
) -> Reply:
    """One leg at one client."""
    turn = ClientTurn(task, round, "train", client=client, epochs=epochs)
    return run_leg(turn, task.algorithm.legs[0], state, data, Weights(down or {}))


def part(outcome: Reply, prefix: str) -> dict[str, Tensor]:
    """What the probe noted under a prefix."""
    mem = outcome.state.mem
    return {name.removeprefix(prefix): t for name, t in mem.items() if name.startswith(prefix)}


def equal(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(t, two[name]) for name, t in one.items())
