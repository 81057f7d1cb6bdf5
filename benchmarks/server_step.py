"""FedTGP's server step, three ways that give the same numbers.

`DataLoader` is what released code does: shuffled batches from a loader, autograd, torch's SGD. `autograd` is
the same over batches cut beforehand. Ours (`ops/tgp_server.py`) has the gradient written out and updates
the weights in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot
from torch.utils.data import DataLoader, TensorDataset

from protofed.core.rng import torch_generator
from protofed.ops import tgp_server
from protofed.ops.distances import pairwise_l2

from .machine import interleaved, ratios, spans

CLASSES, DIM, BATCH, LR, DELTA = 10, 512, 10, 0.01, 1.0
Batches = Callable[[Tensor, Tensor, torch.Generator], Iterator[tuple[Tensor, Tensor]]]


def server_step(uploads: int, epochs: int, repeats: int) -> dict[str, Any]:
    """Median seconds of each way for the prototypes of `uploads` clients, and the largest difference."""
    generator = torch_generator("server step")
    start = tgp_server.init(CLASSES, DIM, True, generator)
    rows = torch.randn(uploads * CLASSES, DIM, generator=generator)
    cls = torch.arange(CLASSES).repeat(uploads)
    ways = {
        "protofed": partial(_ours, start, rows, cls, epochs),
        "autograd": partial(by_autograd, start, rows, cls, epochs, cut),
        "DataLoader": partial(by_autograd, start, rows, cls, epochs, loaded),
    }
    timed = interleaved(ways, repeats)
    ours, reference = ways["protofed"](), ways["autograd"]()
    return {
        "rows": len(rows),
        "epochs": epochs,
        "repeats": repeats,
        **spans(timed),
        **ratios(timed, "protofed"),
        "largest_difference": max(float((ours[n] - reference[n]).abs().max()) for n in ours),
    }


def _ours(start: tgp_server.Trained, rows: Tensor, cls: Tensor, epochs: int) -> tgp_server.Trained:
    order = torch_generator("order")
    return tgp_server.train(start, rows, cls, DELTA, epochs, BATCH, LR, order)


def by_autograd(
    start: tgp_server.Trained, rows: Tensor, cls: Tensor, epochs: int, batches: Batches
) -> tgp_server.Trained:
    """The same steps by autograd and torch's SGD."""
    trained = {name: tensor.clone().requires_grad_() for name, tensor in start.items()}
    optimiser = torch.optim.SGD(trained.values(), LR)
    order = torch_generator("order")
    for _ in range(epochs):
        for some, y in batches(rows, cls, order):
            hidden = nn.functional.linear(trained["E"], trained["W1"], trained["b1"]).relu()
            protos = nn.functional.linear(hidden, trained["W2"], trained["b2"])
            margin = DELTA * one_hot(y, CLASSES).to(rows.dtype)
            loss = cross_entropy(-(pairwise_l2(some, protos) + margin), y)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return {name: tensor.detach() for name, tensor in trained.items()}


def cut(rows: Tensor, cls: Tensor, order: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of a shuffled copy, in the order of ours."""
    shuffled = torch.randperm(len(rows), generator=order)
    return zip(torch.split(rows[shuffled], BATCH), torch.split(cls[shuffled], BATCH))


def loaded(rows: Tensor, cls: Tensor, order: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    return iter(DataLoader(TensorDataset(rows, cls), BATCH, shuffle=True, generator=order))
