"""A generator of embeddings for given labels, and how a server trains it through the clients' heads.

Source: *FedGen* (Zhu et al. 2021), in the lighter form of *FedTGP*'s experiments; `diversity` is the
term of the original.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..core.optim import Opt, Stepper
from .prototypes import one_hot

Teachers = Callable[[Tensor], Tensor]  # embeddings [B, D] → logits of all heads [K, B, C]


class Generator(nn.Module):
    """[noise, one-hot label] → Linear → BatchNorm → ReLU → Linear → embedding."""

    def __init__(self, noise: int, num_classes: int, hidden: int, dim: int):
        super().__init__()
        self.inner = nn.Linear(noise + num_classes, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.outer = nn.Linear(hidden, dim)

    def forward(self, eps: Tensor, hot: Tensor) -> Tensor:
        """Noise [B, d_ε] and one-hot labels [B, C] to embeddings [B, D]."""
        out: Tensor = self.outer(self.norm(self.inner(torch.cat([eps, hot], 1))).relu())
        return out


class Plan(NamedTuple):
    """How a server trains the generator."""

    steps: int
    batch_size: int
    noise: int
    lr: float
    eta: float = 0.0  # weight of the diversity term


def train(
    generator: Generator, teachers: Teachers, weight: Tensor, labels: Tensor, plan: Plan, rng: torch.Generator
) -> None:
    """Adam on CE(Σ_k w_k[y]·h_k(Gen(ε, y)), y), labels drawn in proportion to `labels` [C].

    `weight` [K, C] holds the teachers' weights per label. The generator changes in place.
    """
    named = dict(generator.named_parameters())
    params = list(named.values())
    stepper = Stepper(list(named), {"": Opt(lr=plan.lr, optimizer="adam")})
    generator.train()
    with torch.enable_grad():
        for _ in range(plan.steps):
            eps, y = draw(labels, plan.batch_size, plan.noise, weight.dtype, rng)
            z = generator(eps, one_hot(y, len(labels), eps.dtype))
            loss = ensemble_ce(teachers(z), weight, y)
            if plan.eta:
                loss = loss + plan.eta * diversity(eps, z)
            stepper.step(params, torch.autograd.grad(loss, params))


def draw(
    labels: Tensor, size: int, noise: int, dtype: torch.dtype, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Noise U(0,1) [B, d_ε], and labels [B] in proportion to `labels` [C] (counts or shares)."""
    y = torch.multinomial(labels.cpu().to(torch.float64), size, replacement=True, generator=rng)
    eps = torch.rand(size, noise, generator=rng, dtype=dtype)
    return eps.to(labels.device), y.to(labels.device)


def ensemble_ce(logits: Tensor, weight: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of the weighted sum of the teachers' logits [K, B, C], weights [K, C] by label."""
    return cross_entropy((weight[:, y, None] * logits).sum(0), y)


def diversity(eps: Tensor, z: Tensor) -> Tensor:
    """exp(−mean over pairs of mean|ε_j−ε_k|² · mean|z_j−z_k|): small where noise changes the output."""
    noise = (eps[:, None] - eps[None]).square().mean(-1)
    output = (z[:, None] - z[None]).abs().mean(-1)
    return (-(noise * output).mean()).exp()
