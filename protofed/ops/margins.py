"""Semantic prototype margins and the attention made of them.

Michieli and Ozay, *Prototype Guided Federated Learning of Visual Feature Representations*
(ProtoMargin), arxiv.org/abs/2105.08982, Eq. 5–7, 11, 12.

All functions take leading axes (say, K clients) before the axes C (classes) and D (embedding), and
a mask of the shared classes C', those that both prototype sets have. Classes outside C' get 0.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def minmax(prototypes: Tensor) -> Tensor:
    """Each prototype [...,D] scaled to [0, 1] over its channels; a constant one becomes 0."""
    low, high = prototypes.aminmax(dim=-1, keepdim=True)
    span = high - low
    return (prototypes - low) / span.where(span > 0, 1.0)


def displacement(one: Tensor, two: Tensor, shared: Tensor) -> tuple[Tensor, Tensor]:
    """d⁺ and d⁻ (Eq. 5, 6), each [...,C], between prototype sets [...,C,D].

    d⁺[c] = ‖one[c] − two[c]‖; d⁻[c] = mean of ‖one[c] − two[c']‖ over the other shared classes c'.
    """
    # Exact subtraction: by a matrix product equal prototypes would not have distance 0.
    distance = torch.cdist(one, two, compute_mode="donot_use_mm_for_euclid_dist")
    own = torch.eye(distance.shape[-1], dtype=torch.bool, device=distance.device)
    other = shared[..., :, None] & shared[..., None, :] & ~own
    plus = distance.diagonal(dim1=-2, dim2=-1).where(shared, 0.0)
    minus = distance.where(other, 0.0).sum(-1) / other.sum(-1).clamp(min=1)
    return plus, minus


def spm(one: Tensor, two: Tensor, shared: Tensor) -> Tensor:
    """μ[c] = (d⁻ − d⁺)/(d⁻ + d⁺) (Eq. 7), in [−1, 1], shape [...,C].

    Undefined margins are 0: those with fewer than two shared classes, or with d⁻ + d⁺ = 0.
    """
    plus, minus = displacement(one, two, shared)
    total = plus + minus
    enough = shared.sum(-1, keepdim=True) >= 2
    return ((minus - plus) / total.where(total > 0, 1.0)).where(enough, 0.0)


def attention_weights(scores: Tensor) -> Tensor:
    """a[k] = σ(s_k)/Σ_j σ(s_j) (Eq. 11, 12) of sums of margins [K].

    By logarithms: the sigmoid of a very negative sum is 0 in floating point, and 0/0 is no weight.
    """
    return logsigmoid(scores).softmax(0)
