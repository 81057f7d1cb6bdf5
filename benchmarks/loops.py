"""What we compare with: the same clients, models and batch sizes, in the plainest PyTorch.

`Bare` trains with cross-entropy alone on preloaded tensors: no prototypes, no messages, no server. It is
a lower bound for any loop that runs one client after the other. `Naive` is what released research code
does: a DataLoader per client, prototypes looked up and collected sample by sample in Python, a deep copy
of a model where weights are exchanged, tests by loops over samples and classes. `ByHand` is the tensor
work of FedProto on our sequential engine with nothing around it: what the engine adds is measured by it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from protofed.core.data import Batch, LocalData, batch_rows
from protofed.core.rng import torch_generator
from protofed.core.task import Task
from protofed.experiment import Experiment
from protofed.ops.losses import ce, class_pull
from protofed.ops.prototypes import class_sums, means

TEST_BATCH = 256


class Loop:
    """One model per client that took part."""

    def __init__(self, experiment: Experiment):
        self.experiment = experiment
        self.task: Task = experiment.task
        self._models: dict[int, nn.Module] = {}

    def model(self, client: int) -> nn.Module:
        if client not in self._models:
            group = self.task.groups[self.task.group_of(client)]
            self._models[client] = group.build().train()
        return self._models[client]

    def optimiser(self, model: nn.Module) -> torch.optim.Optimizer:
        opt = self.task.opt
        if opt.optimizer == "adam":
            return torch.optim.Adam(model.parameters(), opt.lr, weight_decay=opt.weight_decay)
        return torch.optim.SGD(model.parameters(), opt.lr, opt.momentum, weight_decay=opt.weight_decay)

    def round(self, clients: Sequence[int], epochs: int) -> int:
        """Train these clients; returns the number of samples seen."""
        return sum(self.client(client, self.experiment.data.train(client), epochs) for client in clients)

    def client(self, client: int, data: LocalData, epochs: int) -> int:
        raise TypeError("abstract")

    def test(self, clients: Sequence[int]) -> int:
        """Test these clients; returns the number of samples that were right."""
        raise TypeError("this loop has no test")


class Bare(Loop):
    def client(self, client: int, data: LocalData, epochs: int) -> int:
        model, seen = self.model(client), 0
        optimiser = self.optimiser(model)
        x_all = data.x.contiguous()
        for rows, _ in batch_rows(len(data), self.task.batch_size, epochs, torch_generator(client)):
            if len(rows) == 1:
                continue
            loss = nn.functional.cross_entropy(model(x_all[rows])[1], data.y[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            seen += len(rows)
        return seen


class Naive(Loop):
    """FedProto as research code writes it."""

    def __init__(self, experiment: Experiment):
        super().__init__(experiment)
        self.protos: dict[int, Tensor] = {}

    def round(self, clients: Sequence[int], epochs: int) -> int:
        self._uploads: list[dict[int, Tensor]] = []
        seen = super().round(clients, epochs)
        gathered: dict[int, list[Tensor]] = {}
        for upload in self._uploads:
            for label, proto in upload.items():
                gathered.setdefault(label, []).append(proto)
        self.protos = {label: sum(parts[1:], parts[0]) / len(parts) for label, parts in gathered.items()}
        return seen

    def client(self, client: int, data: LocalData, epochs: int) -> int:
        model = copy.deepcopy(self.model(client))
        optimiser = self.optimiser(model)
        loader = DataLoader(TensorDataset(data.x.contiguous(), data.y), self.task.batch_size, shuffle=True)
        distance, seen = nn.MSELoss(), 0
        collected: dict[int, list[Tensor]] = {}
        for epoch in range(epochs):
            for images, labels in loader:
                if len(images) == 1:
                    continue
                optimiser.zero_grad()
                embedding, logits = model(images)
                target = embedding.detach().clone()
                for i, label in enumerate(labels):
                    if int(label) in self.protos:
                        target[i] = self.protos[int(label)]
                loss = nn.functional.cross_entropy(logits, labels) + distance(embedding, target)
                loss.backward()
                optimiser.step()
                seen += len(images)
                if epoch == epochs - 1:
                    for i, label in enumerate(labels):
                        collected.setdefault(int(label), []).append(embedding[i].detach())
        self._uploads.append({label: sum(zs[1:], zs[0]) / len(zs) for label, zs in collected.items()})
        self._models[client] = model
        return seen

    @torch.no_grad()
    def test(self, clients: Sequence[int]) -> int:
        """The nearest prototype, found by loops over samples and classes."""
        right = 0
        for client in clients:
            data, model = self.experiment.data.test(client), self.model(client).eval()
            if not len(data):
                continue
            for images, labels in DataLoader(TensorDataset(data.x.contiguous(), data.y), TEST_BATCH):
                for z, label in zip(model(images)[0], labels):
                    gaps = {c: float((z - proto).square().mean()) for c, proto in self.protos.items()}
                    right += bool(gaps) and min(gaps, key=gaps.__getitem__) == int(label)
            model.train()
        return right


class ByHand(Loop):
    """FedProto's forward and backward passes, steps and prototype passes, one client after the other."""

    def __init__(self, experiment: Experiment):
        super().__init__(experiment)
        task = self.task
        self.protos = torch.zeros(task.C, task.D)
        self.known = torch.zeros(task.C, dtype=torch.bool)

    def model(self, client: int) -> nn.Module:
        if client not in self._models:
            self._models[client] = self.task.modules(self.task.group_of(client))["model"]
        return self._models[client]

    def round(self, clients: Sequence[int], epochs: int) -> int:
        self._sums, self._counts = torch.zeros_like(self.protos), torch.zeros(self.task.C)
        seen = super().round(clients, epochs)
        self.protos, self.known = means(self._sums, self._counts), self._counts > 0
        return seen

    def client(self, client: int, data: LocalData, epochs: int) -> int:
        model, opt, seen = self.model(client).train(), self.task.opt, 0
        params: list[Tensor] = list(model.parameters())
        velocity = [torch.zeros_like(p) for p in params]
        last = torch.ones(())
        for rows, _ in batch_rows(len(data), self.task.batch_size, epochs, torch_generator(client)):
            batch = Batch(data.x[rows], data.y[rows], rows, last, {})
            z, logits = model(batch.x)
            pull = class_pull(z, batch, self.protos, self.known, "l2").sum()
            grads = torch.autograd.grad(ce(logits, batch.y) + pull, params)
            with torch.no_grad():
                torch._foreach_mul_(velocity, opt.momentum)
                torch._foreach_add_(velocity, grads)
                torch._foreach_add_(params, velocity, alpha=-opt.lr)
            seen += len(rows)
        model.eval()
        with torch.no_grad():
            for x, y in data.chunks():
                sums, count = class_sums(model.base(x), y, self.task.C)  # type: ignore[operator]
                self._sums += sums
                self._counts += count
        return seen
