"""FedTGP's server step: trainable prototypes G = F(E), the adaptive margin, and training by mini-batches.

E [C, D] are trainable vectors, F is Linear–ReLU–Linear. One SGD step on a batch (P, y) minimises the mean
of −log softmax over −(d_j + δ·1[j = y]), with d_j the distance between P and G[j] (Eq. 10 of FedTGP).

The gradient is written out by hand, and the weights are updated in place with `addmm_`: the gradient of
a D × D weight is a product of thin matrices, so it need never exist. This is the same arithmetic as
autograd and `torch.optim.SGD` (checked in the tests), at a fraction of the time: a round takes thousands
of such steps, and each is bound by the memory traffic of the two D × D weights.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .distances import ROOT_EPS

Trained = dict[str, Tensor]  # "E", and with F: "W1", "b1", "W2", "b2"


def init(num_classes: int, dim: int, process: bool, generator: torch.Generator) -> Trained:
    """E ~ N(0, 1); F as torch initialises linear layers: U(−1/√D, 1/√D). Without `process` only E."""
    trained = {"E": torch.randn(num_classes, dim, generator=generator)}
    if process:
        bound = 1 / math.sqrt(dim)
        for name, shape in {"W1": (dim, dim), "b1": (dim,), "W2": (dim, dim), "b2": (dim,)}.items():
            trained[name] = torch.empty(shape).uniform_(-bound, bound, generator=generator)
    return trained


def prototypes(trained: Trained) -> Tensor:
    """G = F(E) [C, D], or E itself where there is no F."""
    return _forward(trained)[1]


def margin(protos: Tensor, cls: Tensor, reading: str, tau: float) -> float:
    """δ(t) of Eq. 9 from the uploaded prototypes [J, D], at most τ; 0 with fewer than two classes.

    With Q[c] the plain mean of the uploads of class c: `adaptive` max_c min_c' ‖Q[c] − Q[c']‖,
    `pairwise_max` the largest of all these distances, `literal` min_c max_c' as printed.
    """
    if reading == "none":
        return 0.0
    if reading == "fixed":
        return tau
    owned, index = torch.unique(cls, return_inverse=True)
    if len(owned) < 2:
        return 0.0
    sums = protos.new_zeros(len(owned), protos.shape[1]).index_add(0, index, protos)
    centres = sums / index.bincount()[:, None]
    gaps = torch.cdist(centres, centres, compute_mode="donot_use_mm_for_euclid_dist")
    if reading == "adaptive":
        found = gaps.fill_diagonal_(math.inf).min(1).values.max()
    else:
        farthest = gaps.max(1).values
        found = farthest.min() if reading == "literal" else farthest.max()
    return min(float(found), tau)


def train(
    trained: Trained,
    protos: Tensor,
    cls: Tensor,
    delta: float,
    epochs: int,
    batch: int | None,
    lr: float,
    generator: torch.Generator,
) -> Trained:
    """SGD for some epochs over the rows (P, c), shuffled in each; `batch=None` takes all rows at once."""
    trained = {name: tensor.clone() for name, tensor in trained.items()}
    size = batch or max(1, len(protos))
    for _ in range(epochs):
        order = torch.randperm(len(protos), generator=generator).to(protos.device)
        for rows, y in zip(torch.split(protos[order], size), torch.split(cls[order], size)):
            step(trained, rows, y, delta, lr)
    return trained


def step(trained: Trained, rows: Tensor, y: Tensor, delta: float, lr: float) -> None:
    """One SGD step, in place."""
    hidden, protos = _forward(trained)
    slope = slope_at(protos, rows, y, delta)
    vectors = trained["E"]
    if hidden is None:
        vectors.add_(slope, alpha=-lr)
        return
    # All slopes come first: each needs the weights as they were before the step.
    inner = (slope @ trained["W2"]).mul_(hidden > 0)
    to_vectors = inner @ trained["W1"]
    trained["W2"].addmm_(slope.T, hidden, alpha=-lr)
    trained["b2"].sub_(slope.sum(0), alpha=lr)
    trained["W1"].addmm_(inner.T, vectors, alpha=-lr)
    trained["b1"].sub_(inner.sum(0), alpha=lr)
    vectors.add_(to_vectors, alpha=-lr)


def slope_at(protos: Tensor, rows: Tensor, y: Tensor, delta: float) -> Tensor:
    """Gradient [C, D] of the loss with respect to the prototypes G [C, D].

    ∂L/∂d_j = (1[j = y] − softmax_j) / B and ∂d_j/∂G_j = (G_j − P) / d_j; 0 below the clamp.
    """
    norms = rows.square().sum(1, keepdim=True) + protos.square().sum(1)
    squared = torch.addmm(norms, rows, protos.T, alpha=-2)
    distance = squared.clamp(min=ROOT_EPS).sqrt_()
    own = torch.zeros_like(distance).scatter_(1, y[:, None], 1.0)
    pull = own.sub(torch.softmax(distance.add(own, alpha=delta).neg_(), 1)).div_(len(rows))
    weight = pull.div_(distance).mul_(squared >= ROOT_EPS)
    return torch.addmm(weight.sum(0)[:, None] * protos, weight.T, rows, alpha=-1)


def _forward(trained: Trained) -> tuple[Tensor | None, Tensor]:
    if "W1" not in trained:
        return None, trained["E"]
    hidden = torch.addmm(trained["b1"], trained["E"], trained["W1"].T).relu_()
    return hidden, torch.addmm(trained["b2"], hidden, trained["W2"].T)
