"""W1's limit: the tensor work of a round of FedProto, stacked by hand, with nothing around it.

All clients train as one network: convolutions with a group for each client over channels_last images, batched
linear layers, the loss of all clients in one expression, SGD with momentum over one list of tensors. Clients
are sorted by length and those with work left are a prefix; a last batch that is not full is filled up with
samples that weigh nothing, so a step is one pass. No messages, no checks, no generator for each client, no
accounts: what an engine needs on top of this is its own cost. Numbers are those of the engine: the test
compares losses and prototypes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import conv2d, cross_entropy, max_pool2d, one_hot

from protofed.core.max_pool import MaxPool2
from protofed.core.rng import torch_generator
from protofed.experiment import Experiment
from protofed.ops.distances import l2
from protofed.ops.prototypes import class_sums, means

from .loops import Loop

NAMES = ("base.conv.0", "base.conv.3", "base.fc.1", "head.fc")  # layers of fp_cnn
KEEP = 0.5  # of dropout, as in fp_cnn
Order = Callable[[int], torch.Generator]


class StackedByHand(Loop):
    """All clients of W1 as one network. `dropout=False` leaves it out, for comparisons with an engine."""

    def __init__(self, experiment: Experiment, dropout: bool = True):
        super().__init__(experiment)
        task, data = self.task, experiment.data
        self.clients = sorted(range(task.clients), key=lambda client: (-data.size(client), client))
        self.sizes = [data.size(client) for client in self.clients]
        self.starts = [sum(self.sizes[:k]) for k in range(len(self.sizes))]
        own = [data.train(client) for client in self.clients]
        self.x, self.y = torch.cat([one.x for one in own]), torch.cat([one.y for one in own])
        self.params = _stacked([task.fresh(0, client) for client in self.clients])
        self.protos = torch.zeros(task.C, task.D)
        self.known = torch.zeros(task.C, dtype=torch.bool)
        self.dropout = dropout

    def round(self, clients: Sequence[int], epochs: int, order: Order = torch_generator) -> int:
        """One local epoch of all clients, then their prototypes and the average."""
        rows, weight = self._batches(order)
        self.velocity = [torch.zeros_like(p) for p in self.params]
        losses = torch.zeros(len(self.clients))
        for step in range(rows.shape[1]):
            active = int((weight[:, step, 0] > 0).sum())
            losses[:active] += self._step(rows[:active, step], weight[:active, step])
        self.losses = losses / (weight[:, :, 0] > 0).sum(1)  # means over steps, clients as in self.clients
        self._prototypes()
        return sum(self.sizes)

    def _batches(self, order: Order) -> tuple[Tensor, Tensor]:
        """Rows [K, steps, B] of every batch and what a sample weighs in its mean; 0: no sample."""
        size = self.task.batch_size
        steps = -(-self.sizes[0] // size)
        rows = torch.zeros(len(self.clients), steps * size, dtype=torch.int64)
        weight = torch.zeros(len(self.clients), steps * size)
        for k, (client, n, start) in enumerate(zip(self.clients, self.sizes, self.starts)):
            rows[k, :n] = start + torch.randperm(n, generator=order(client))
            weight[k, :n] = 1 / size
            if n % size:
                weight[k, n - n % size : n] = 1 / (n % size)
        shape = (len(self.clients), steps, size)
        return rows.view(shape), weight.view(shape)

    def _step(self, rows: Tensor, weight: Tensor) -> Tensor:
        """One step of the first k clients; their losses."""
        k, per_client = len(rows), [len(p) // len(self.clients) for p in self.params]
        live = [p[: k * each].detach().requires_grad_() for p, each in zip(self.params, per_client)]
        images = self.x[rows.t()].squeeze(2).contiguous(memory_format=torch.channels_last)  # [B, k, H, W]
        z, logits = self._forward(live, images, k)
        losses = self._losses(z, logits, self.y[rows], weight)
        grads = torch.autograd.grad(losses.sum(), live)
        with torch.no_grad():
            velocity = [v[: k * each] for v, each in zip(self.velocity, per_client)]
            torch._foreach_mul_(velocity, self.task.opt.momentum)
            torch._foreach_add_(velocity, grads)
            torch._foreach_add_(live, velocity, alpha=-self.task.opt.lr)
        return losses.detach()

    def _forward(self, live: Sequence[Tensor], images: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Embeddings [k, B, D] and logits [k, B, C]."""
        w1, b1, w2, b2, w3, b3, w4, b4 = live
        size = len(images)
        first = max_pool2d(conv2d(images, w1, b1, groups=k), 2).relu()
        second = conv2d(first, w2, b2, groups=k)
        if self.dropout:
            second = second * _mask(size, second.shape[1], 1, 1)
        second = max_pool2d(second, 2).relu()
        flat = second.reshape(size, k, -1).transpose(0, 1)
        z = torch.baddbmm(b3[:, None], flat, w3.transpose(1, 2)).relu()
        kept = z * _mask(*z.shape) if self.dropout else z
        return z, torch.baddbmm(b4[:, None], kept, w4.transpose(1, 2))

    def _losses(self, z: Tensor, logits: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        """Cross-entropy, and the distance of each class mean to its prototype (λ = 1): [k]."""
        apart = cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view_as(y)
        member = one_hot(y, self.task.C) * (weight > 0)[..., None]
        count = member.sum(1)
        mean = member.transpose(1, 2).to(z.dtype) @ z / count.clamp(min=1)[..., None]
        both = (count > 0) & self.known
        return (apart * weight).sum(1) + (l2(mean, self.protos) * both).sum(1)

    @torch.no_grad()
    def _prototypes(self) -> None:
        """Class means over all samples of all clients, one client after the other in one pass each."""
        sums, counts = torch.zeros_like(self.protos), torch.zeros(self.task.C)
        for k, (start, n) in enumerate(zip(self.starts, self.sizes)):
            z = self._embedded(k, self.x[start : start + n])
            found, count = class_sums(z, self.y[start : start + n], self.task.C)
            sums += found
            counts += count
        self.protos, self.known = means(sums, counts), counts > 0

    @torch.no_grad()
    def test(self, clients: Sequence[int]) -> int:
        """By classifier and by nearest prototype, as many samples at a time as the engine takes."""
        right = 0
        for k, client in enumerate(self.clients):
            _, _, _, _, _, _, w4, b4 = self._own(k)
            for x, y in self.experiment.data.test(client).chunks():
                z = self._embedded(k, x)
                right += int(((z @ w4[0].t() + b4).argmax(1) == y).sum())
                right += int((torch.cdist(z, self.protos).argmin(1) == y).sum())
        return right

    def _own(self, k: int) -> list[Tensor]:
        each = [len(p) // len(self.clients) for p in self.params]
        return [p[k * e : (k + 1) * e] for p, e in zip(self.params, each)]

    def _embedded(self, k: int, images: Tensor) -> Tensor:
        """Embeddings [n, D] of one client, without dropout."""
        w1, b1, w2, b2, w3, b3, _, _ = self._own(k)
        pool = MaxPool2()
        hidden = pool(conv2d(pool(conv2d(images, w1, b1)).relu(), w2, b2)).relu()
        z: Tensor = (hidden.flatten(1) @ w3[0].t() + b3).relu()
        return z


def _mask(*shape: int) -> Tensor:
    return torch.empty(shape).bernoulli_(KEEP).div_(KEEP)


def _stacked(tensors: Sequence[Mapping[str, Tensor]]) -> list[Tensor]:
    """Weights and biases: of convolutions [K · out, …] in channels_last order, of linear layers [K, …]."""
    found = []
    for name in NAMES:
        for kind in ("weight", "bias"):
            all_of_them = torch.stack([one[f"model.{name}.{kind}"] for one in tensors])
            if "conv" in name:
                all_of_them = all_of_them.flatten(0, 1)
            if all_of_them.ndim == 4:
                all_of_them = all_of_them.contiguous(memory_format=torch.channels_last)
            found.append(all_of_them)
    return found
