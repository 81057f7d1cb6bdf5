"""FedProto on one page: plain PyTorch loops over clients, samples and classes; no engine, nothing clever.

    python examples/fedproto_by_hand.py

It shows what `protofed run fedproto` does (Tan et al., AAAI 2022, Eq. 3 to 8), and checks it: with the
same seed, split and batches, the library's prototypes and weights must equal those of these loops.
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from protofed.core.data import batch_rows
from protofed.core.rng import seeded, torch_generator
from protofed.data import divide, load
from protofed.data.loader import Loader

CLIENTS, SEED, PARTITION = 6, 0, "nway:n=3,stdev=1,k=10"
EPOCHS, BATCH, LR, MOMENTUM, LAM = 5, 10, 0.05, 0.5, 0.1


class Net(nn.Module):
    """The built-in `mlp`: 64 inputs, embedding of 32, ten classes."""

    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)


def train(net, x, y, global_prototypes, order):
    """Eq. 7: cross-entropy + λ · Σ over the classes of the batch of the distance to the prototype."""
    optimiser = torch.optim.SGD(net.parameters(), lr=LR, momentum=MOMENTUM)
    for rows, _ in batch_rows(len(x), BATCH, EPOCHS, order):
        z = net.base(x[rows])
        loss = cross_entropy(net.head(z), y[rows])
        for c in set(y[rows].tolist()) & set(global_prototypes):
            mean = z[y[rows] == c].mean(0)
            loss = loss + LAM * ((mean - global_prototypes[c]).square().sum() + 1e-12).sqrt()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@torch.no_grad()
def prototypes(net, x, y):
    """Eq. 3: mean embedding per class; with the number of samples behind it."""
    z = net.base(x)
    return {c: (z[y == c].mean(0), int((y == c).sum())) for c in set(y.tolist())}


def aggregate(uploads, old):
    """Eq. 6: per class, the mean of the uploaded prototypes weighted by their sample counts."""
    new = dict(old)  # a class that nobody has this round keeps its prototype
    for c in {c for upload in uploads for c in upload}:
        owners = [upload[c] for upload in uploads if c in upload]
        new[c] = sum(mean * n for mean, n in owners) / sum(n for _, n in owners)
    return new


@torch.no_grad()
def accuracy(net, x, y, own, global_prototypes):
    """Eq. 4: the nearest global prototype, among the classes that the client has seen."""
    right = 0
    for z, label in zip(net.base(x), y.tolist()):
        distance = {c: float((z - global_prototypes[c]).norm()) for c in own}
        right += min(distance, key=distance.get) == label
    return 100 * right / len(y)


def run(rounds, dtype=torch.float64):
    """The federation: (global prototypes by class, nets, mean accuracy)."""
    dataset = load("digits")
    data = Loader(dataset, divide(PARTITION, dataset, CLIENTS, SEED), dtype)
    nets, global_prototypes = [], {}
    for client in range(CLIENTS):
        with seeded(SEED, "init", 0, client):
            nets.append(Net().to(dtype))
    for round in range(1, rounds + 1):
        uploads = []
        for client, net in enumerate(nets):
            x, y = data.train(client)
            train(net, x, y, global_prototypes, torch_generator(SEED, round, "train", client, "batches 0"))
            uploads.append(prototypes(net, x, y))
        global_prototypes = aggregate(uploads, global_prototypes)
    own = [set(data.train(client)[1].tolist()) for client in range(CLIENTS)]
    scores = [accuracy(nets[i], *data.test(i), own[i], global_prototypes) for i in range(CLIENTS)]
    return global_prototypes, nets, sum(scores) / len(scores)


if __name__ == "__main__":
    for rounds in (1, 5, 10):
        print(f"after round {rounds:2}: {run(rounds)[2]:.1f} % of the clients' test samples are right")
