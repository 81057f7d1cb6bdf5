"""A task whose model has two tensors with few numbers, for weight-sharing methods checked by hand.

The model maps a scalar x to the embedding z = base·x and to two logits head·z.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from protofed.core.algorithm import Algorithm, Ran
from protofed.core.answer import Replies, Reply
from protofed.core.data import Batch
from protofed.core.net import BoundNet, LiveNet
from protofed.core.optim import Opt
from protofed.core.record import Record, Tree
from protofed.core.task import Group, Task, Turn
from protofed.models.base import Model

BASE, HEAD = "model.base.weight", "model.head.weight"


def tiny_model() -> nn.Module:
    return Model(nn.Linear(1, 1, bias=False), nn.Linear(1, 2, bias=False))


def tiny_task(algorithm: Algorithm, clients: int = 4) -> Task:
    return Task(
        algorithm=algorithm,
        groups=[Group("tiny", tiny_model)],
        group_index=np.zeros(clients, dtype=np.int64),
        num_classes=2,
        embed_dims=(1,),
        opt=Opt(lr=0.1, momentum=0.0),
        dtype=torch.float64,
    )


def turn_of(algorithm: Algorithm, client: int | None = None, round: int = 1, clients: int = 4) -> Turn:
    return Turn(tiny_task(algorithm, clients), round, client=client)


def floats(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def tree(base: float, head: Sequence[float] = (0.0, 0.0), part: str = "model") -> Tree:
    named = {BASE: floats([[base]]), HEAD: floats(head)[:, None]}
    return {name.replace("model", part, 1): tensor for name, tensor in named.items()}


def net_of(tensors: Tree, grad: bool = False) -> BoundNet:
    bound = {name: tensor.clone().requires_grad_(grad) for name, tensor in tensors.items()}
    parts = dict.fromkeys(name.split(".")[0] for name in tensors)
    return BoundNet({part: tiny_model().double() for part in parts}, bound)


def live(turn: Turn, tensors: Tree) -> LiveNet:
    net = turn.task.live(turn.group)
    net.install(tensors)
    return net


def batch(x: Sequence[float], y: Sequence[int]) -> Batch:
    return Batch(floats(x)[:, None], torch.tensor(y), torch.arange(len(y)), floats(1.0), {})


def replies(*ups: tuple[int, int, Record]) -> Replies:
    """(client, number of samples, upload) of each sender."""
    return Replies(iter([Reply(*up) for up in ups]))


def ran(start: Tree, steps: int = 1, lr: float = 0.1) -> Ran:
    return Ran(steps, lr, start, {}, None, {})
