"""FedProto as a user of another simulator would write it: one model, torch's SGD, vectorised losses."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor, nn

from protofed.core.data import Batch, LocalData, batch_rows
from protofed.core.task import Task
from protofed.experiment import Experiment, build
from protofed.ops.losses import ce, class_pull
from protofed.ops.prototypes import class_sums

from .workloads import workload_config

DISTANCE = "l2"


@lru_cache(maxsize=1)
def w1(folder: str, small: bool) -> Experiment:
    """Clients, data and model of W1, as the other contenders have them."""
    torch.set_num_threads(1)
    config, _ = workload_config("w1", Path(folder), small, engine="sequential")
    return build(config)


def loss(model: nn.Module, x: Tensor, y: Tensor, protos: Tensor, known: Tensor) -> Tensor:
    """Cross-entropy and the distance of class means to the global prototypes (λ = 1)."""
    z, logits = model(x)
    batch = Batch(x, y, y, torch.ones(()), {})
    return ce(logits, y) + class_pull(z, batch, protos, known, DISTANCE).sum()


def optimiser(model: nn.Module, task: Task) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), task.opt.lr, task.opt.momentum)


def train(model: nn.Module, data: LocalData, protos: Tensor, known: Tensor, task: Task) -> None:
    model.train()
    steps = optimiser(model, task)
    order = torch.Generator().manual_seed(len(data))
    for rows, _ in batch_rows(len(data), task.batch_size, task.epochs, order):
        steps.zero_grad()
        loss(model, data.x[rows], data.y[rows], protos, known).backward()  # type: ignore[no-untyped-call]
        steps.step()


@torch.no_grad()
def prototype_sums(model: nn.Module, data: LocalData, num_classes: int) -> tuple[Tensor, Tensor]:
    """Sums of embeddings [C, D] and counts [C]."""
    model.eval()
    parts = [class_sums(model(x)[0], y, num_classes) for x, y in data.chunks()]
    return torch.stack([s for s, _ in parts]).sum(0), torch.stack([n for _, n in parts]).sum(0)
