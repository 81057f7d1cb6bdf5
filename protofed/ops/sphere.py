"""Points far apart on a sphere: a simplex, orthogonal directions, or points that pushed each other away."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

CLOSEST = 1e-10  # added to squared distances: two equal points push with a large force, not an infinite one
DECAY, EVERY = 0.95, 10  # the step of `spread_out` is multiplied so after so many steps


def simplex(points: int, dim: int, generator: torch.Generator) -> Tensor:
    """Unit rows [C, D] with all cosines −1/(C−1), the farthest apart that C points can be; needs D ≥ C."""
    centred = torch.eye(points, dtype=torch.float64) - 1 / points
    return normalize(centred @ orthogonal(points, dim, generator))


def orthogonal(points: int, dim: int, generator: torch.Generator) -> Tensor:
    """Orthonormal rows [C, D]; needs D ≥ C."""
    drawn = torch.randn(dim, points, generator=generator, dtype=torch.float64)
    basis: Tensor = torch.linalg.qr(drawn).Q
    return basis.T


def uniform(points: int, dim: int, generator: torch.Generator) -> Tensor:
    """Unit rows [C, D], as far apart as they get: a simplex where it fits, else random ones spread out."""
    if dim >= points > 1:
        return simplex(points, dim, generator)
    drawn = torch.randn(points, dim, generator=generator, dtype=torch.float64)
    return spread_out(drawn, steps=200, lr=0.1, momentum=0.9)


def spread_out(rows: Tensor, steps: int, lr: float, momentum: float) -> Tensor:
    """Rows [C, D] that push each other away on the unit sphere, Σ_j (p_i − p_j) / ‖p_i − p_j‖² on p_i.

    After each step with momentum all rows are brought back to length 1.
    """
    rows = normalize(rows)
    velocity = torch.zeros_like(rows)
    for step in range(steps):
        gaps = rows[:, None] - rows
        force = (gaps / (gaps.square().sum(-1, keepdim=True) + CLOSEST)).sum(1)
        velocity = momentum * velocity + lr * DECAY ** math.ceil(step / EVERY) * force
        rows = normalize(rows + velocity)
    return rows
