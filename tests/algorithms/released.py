"""What the released code of FedProto and of FedTGP's comparison does with a given start, order and batches.

Written from reading that code, sample by sample and with torch's own modules and optimisers, so that it
shares nothing with the package but the start. Batches follow the order of the samples; what does not fill
one is left out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

Samples = tuple[Tensor, Tensor]
Table = dict[int, Tensor]
CE, MSE = nn.CrossEntropyLoss(), nn.MSELoss()


def KL(logs: Tensor, teacher: Tensor) -> Tensor:
    """A mean over all elements, not over samples alone."""
    return F.kl_div(logs, teacher, reduction="none").mean()


def whole_batches(data: Samples, size: int) -> Iterator[Samples]:
    x, y = data
    for number in range(len(x) // size):
        yield x[number * size : (number + 1) * size], y[number * size : (number + 1) * size]


def mean_by_label(found: Sequence[tuple[int, Tensor]]) -> Table:
    """The mean of the vectors of each label."""
    lists: dict[int, list[Tensor]] = {}
    for label, vector in found:
        lists.setdefault(label, []).append(vector)
    return {label: torch.stack(vectors).mean(0) for label, vectors in lists.items()}


def average_tables(tables: Sequence[Table]) -> Table:
    """The plain mean over the clients that have the label."""
    return mean_by_label([(label, row) for table in tables for label, row in table.items()])


def pulled(z: Tensor, y: Tensor, known: Table) -> Tensor:
    """MSE to the vector of each sample's label; to the sample's own vector where there is none."""
    target = z.detach().clone()
    for row, label in enumerate(y.tolist()):
        if label in known:
            target[row] = known[label]
    return MSE(target, z)


def train_with_prototypes(
    model: nn.Module, data: Samples, known: Table, lam: float, opts: dict[str, float], epochs: int, size: int
) -> list[list[tuple[int, Tensor]]]:
    """Local training of FedProto and FedTGP; embeddings seen in each epoch, before each step."""
    optimiser = torch.optim.SGD(model.parameters(), **opts)
    seen: list[list[tuple[int, Tensor]]] = []
    for _ in range(epochs):
        seen.append([])
        for x, y in whole_batches(data, size):
            z, logits = model(x)
            loss = CE(logits, y) + (lam * pulled(z, y, known) if known else 0)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            seen[-1] += [(label, row.detach()) for label, row in zip(y.tolist(), z)]
    return seen


@torch.no_grad()
def prototypes_of(model: nn.Module, data: Samples, size: int) -> Table:
    return mean_by_label(
        [(label, row) for x, y in whole_batches(data, size) for label, row in zip(y.tolist(), model(x)[0])]
    )


class TrainablePrototypes(nn.Module):
    """FedTGP's server model."""

    def __init__(self, start: dict[str, Tensor]):
        super().__init__()
        self.vectors = nn.Parameter(start["E"].clone())
        dim = self.vectors.shape[1]
        self.inner, self.outer = nn.Linear(dim, dim).double(), nn.Linear(dim, dim).double()
        for layer, number in ((self.inner, 1), (self.outer, 2)):
            layer.weight.data = start[f"W{number}"].clone()
            layer.bias.data = start[f"b{number}"].clone()

    def forward(self) -> Tensor:
        return self.outer(F.relu(self.inner(self.vectors)))

    def fit(self, uploads: list[Table], orders: Sequence[Tensor], size: int, lr: float, most: float) -> None:
        """One epoch for each order of the uploaded rows; the margin is the largest distance of a class to
        its nearest neighbour, at most `most`."""
        rows = [(row, label) for table in uploads for label, row in sorted(table.items())]
        centres = average_tables(uploads)
        nearest = [min(float((centres[a] - centres[b]).norm()) for b in centres if b != a) for a in centres]
        margin = min(max(nearest), most)
        optimiser = torch.optim.SGD(self.parameters(), lr=lr)
        for order in orders:
            for part in torch.split(order, size):
                p = torch.stack([rows[i][0] for i in part.tolist()])
                y = torch.tensor([rows[i][1] for i in part.tolist()])
                made = self()
                squares = p.square().sum(1, keepdim=True) - 2 * p @ made.T + made.square().sum(1)
                far = squares.sqrt() + margin * F.one_hot(y, len(made))
                loss = CE(-far, y)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()


def train_with_logits(model: nn.Module, data: Samples, known: Table, lr: float, size: int) -> Table:
    """FedDistill: softened mean logits of the label teach; the logits that were seen go up."""
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    seen: list[tuple[int, Tensor]] = []
    for x, y in whole_batches(data, size):
        logits = model(x)[1]
        loss = CE(logits, y)
        if known:
            teacher = logits.detach().clone()
            for row, label in enumerate(y.tolist()):
                if label in known:
                    teacher[row] = known[label]
            loss = loss + CE(logits, teacher.softmax(1))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        seen += [(label, row.detach()) for label, row in zip(y.tolist(), logits)]
    return mean_by_label(seen)


Losses = Callable[[Samples, Samples, Tensor], tuple[Tensor, Tensor]]


def mutual_losses(alpha: float) -> Losses:
    """FML's two losses, of (embedding, logits) of both models: a mean over all elements of the divergence."""

    def losses(own: Samples, aux: Samples, y: Tensor) -> tuple[Tensor, Tensor]:
        first = alpha * CE(own[1], y) + (1 - alpha) * KL(own[1].log_softmax(1), aux[1].softmax(1))
        second = alpha * CE(aux[1], y) + (1 - alpha) * KL(aux[1].log_softmax(1), own[1].softmax(1))
        return first, second

    return losses


def adaptive_losses(project: nn.Module) -> Losses:
    """FedKD's two losses."""

    def losses(own: Samples, aux: Samples, y: Tensor) -> tuple[Tensor, Tensor]:
        ce_own, ce_aux = CE(own[1], y), CE(aux[1], y)
        scale = ce_own + ce_aux
        hidden = MSE(own[0], project(aux[0])) / scale
        first = ce_own + KL(own[1].log_softmax(1), aux[1].softmax(1)) / scale + hidden
        second = ce_aux + KL(aux[1].log_softmax(1), own[1].softmax(1)) / scale + hidden
        return first, second

    return losses


def train_pair(
    models: Sequence[nn.Module], rates: Sequence[float], data: Samples, losses: Losses, size: int
) -> None:
    """Own and auxiliary model, and what else learns; both losses reach all of them, norms are cut at 10."""
    optimisers = [torch.optim.SGD(model.parameters(), lr=lr) for model, lr in zip(models, rates)]
    for x, y in whole_batches(data, size):
        first, second = losses(models[0](x), models[1](x), y)
        for optimiser in optimisers:
            optimiser.zero_grad()
        first.backward(retain_graph=True)
        second.backward()
        for model in models:
            nn.utils.clip_grad_norm_(model.parameters(), 10)
        for optimiser in optimisers:
            optimiser.step()


def cut(values: np.ndarray, energy: float) -> np.ndarray:
    """A weight as it arrives after FedKD's compression."""
    if values.ndim < 2 or values.shape[0] == 1:
        return values
    u, s, v = np.linalg.svd(values, full_matrices=False)
    energies = np.square(s).reshape(-1, s.shape[-1]).sum(0)
    rank = 0
    for count in range(len(energies)):
        if energies[:count].sum() > energy * energies.sum():
            rank = count
            break
    return (u[..., :rank] * s[..., None, :rank]) @ v[..., :rank, :]


def cut_all(weights: dict[str, Tensor], energy: float) -> dict[str, Tensor]:
    return {name: torch.from_numpy(cut(value.numpy(), energy)) for name, value in weights.items()}


def plain_mean(trees: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: sum(tree[name] / len(trees) for tree in trees) for name in trees[0]}


def with_weights(model: nn.Module, weights: dict[str, Tensor]) -> nn.Module:
    made = copy.deepcopy(model)
    made.load_state_dict(weights)
    return made
