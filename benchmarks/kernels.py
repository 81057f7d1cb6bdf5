"""The limit of W2 to W4: the kernels of a round's training alone.

The same networks, as our engines place them, make as many forward and backward passes as the round has steps,
with batches of the same sizes: on a batch that lies ready, the same one again and again, with cross-entropy
alone, one client after the other on one thread. There is no gathering of samples, no step of an optimiser, no
prototype, no pass after training, no message and no server. So no way to train these networks by these
kernels one by one takes less; an engine that updates weights inside the backward pass, without a gradient in
memory, may come out above the limit where layers are large.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from protofed.core.data import LocalData, whole_batches
from protofed.experiment import Experiment

from .loops import Loop


class Kernels(Loop):
    """Forward and backward passes on batches that lie ready."""

    def model(self, client: int) -> nn.Module:
        group = self.task.group_of(client)
        if group not in self._models:  # weights do not change: one network serves all clients of a group
            self._models[group] = self.task.modules(group)["model"].train()
        return self._models[group]

    def client(self, client: int, data: LocalData, epochs: int) -> int:
        model, size, seen = self.model(client), self.task.batch_size, 0
        params = list(model.parameters())
        stop = whole_batches(len(data), size) if self.task.drop_last else len(data)
        for start in [*range(0, stop, size)] * epochs:
            count = min(size, stop - start)
            if count > 1:
                passes(model, params, data.x[:count], data.y[:count])
            seen += count
        return seen


def passes(model: nn.Module, params: Sequence[Tensor], x: Tensor, y: Tensor) -> None:
    """One forward and one backward pass."""
    torch.autograd.grad(cross_entropy(model(x)[1], y), params, allow_unused=True)


def share_of_test(experiment: Experiment, clients: Sequence[int]) -> float:
    """Share of a test in the multiply-adds of a round of W1: training passes, a pass for prototypes, test."""
    task, data = experiment.task, experiment.data
    model = task.modules(0)["model"]
    x, y = data.train(clients[0]).x[:2], data.train(clients[0]).y[:2]
    training = _multiply_adds(lambda: passes(model, list(model.parameters()), x, y)) / 2
    with torch.no_grad():
        forward = _multiply_adds(lambda: model(x)) / 2
        embedding = _multiply_adds(lambda: model.base(x)) / 2  # type: ignore[operator]
    tests = forward * sum(len(data.test(client)) for client in clients)
    rest = (training * task.epochs + embedding) * sum(data.size(client) for client in clients)
    return float(tests / (tests + rest))


def _multiply_adds(work: Callable[[], object]) -> float:
    with FlopCounterMode(display=False) as counter:
        work()
    return float(counter.get_total_flops()) / 2
