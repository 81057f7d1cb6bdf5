"""Convergence quantities of FedProto: how small λ and η must be, and how many rounds suffice.

Tan et al., *FedProto: Federated Prototype Learning across Heterogeneous Clients*, AAAI 2022:
Theorem 1 (Eq. 15), Corollary 1 (Eq. 16, 17), Theorem 2 (Eq. 18–19).

Symbols: L1 smoothness of the local objective, L2 Lipschitz constant of the embedding, G bound of the
mean gradient norm, sigma2 bound of the gradient variance, E local SGD iterations (not epochs), eta
learning rate of plain SGD, lam weight of the prototype term (unsquared L2 distance).
`None` means that no positive value satisfies the bound.

The constants can be estimated from a training trace by `lipschitz` and `gradient_moments`. A trace
visits only some points, so these are lower bounds of the true constants, and what follows from them
is an indication, not a guarantee.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

STILL = 1e-12  # steps shorter than this say nothing about a slope


class Theorem2(NamedTuple):
    """What Theorem 2 demands of λ and η, and the rounds T it then promises (round up)."""

    lam_bound: float
    eta_bound: float | None
    rounds: float | None


def one_round_change(
    grad_sq_sum: float, eta: float, lam: float, L1: float, L2: float, G: float, sigma2: float, E: int
) -> float:
    """Theorem 1: upper bound of the expected change of the loss in one round; negative is progress.

    `grad_sq_sum` is Σ_e‖∇L_{tE+e}‖² over the E iterations e = 1/2, 1, …, E−1.

    >>> round(one_round_change(10, eta=0.1, lam=0.01, L1=2, L2=3, G=4, sigma2=1, E=10), 6)
    -0.68
    """
    noise = L1 * E * eta**2 * sigma2 / 2 + lam * L2 * eta * E * G
    return noise - (eta - L1 * eta**2 / 2) * grad_sq_sum


def eta_bound_corollary1(
    grad_sq_sum: float, lam: float, L1: float, L2: float, G: float, sigma2: float, E: int
) -> float | None:
    """Eq. 16: η_{e'} must stay below 2(S − λ·L2·E·G)/(L1(S + E·σ²)), S = Σ_{e≤e'}‖∇L_{tE+e}‖².

    >>> round(eta_bound_corollary1(10, lam=0.01, L1=2, L2=3, G=4, sigma2=1, E=10), 6)
    0.44
    """
    return _positive_ratio(2 * (grad_sq_sum - lam * L2 * E * G), L1 * (grad_sq_sum + E * sigma2))


def eta_bounds_corollary1(
    grad_sq: Sequence[float], lam: float, L1: float, L2: float, G: float, sigma2: float, E: int
) -> tuple[float | None, ...]:
    """Eq. 16 at every local step e' = 1/2, 1, …, E−1, from the squared gradients of these steps.

    >>> bounds = eta_bounds_corollary1([1, 1, 8], lam=0.01, L1=2, L2=3, G=4, sigma2=1, E=10)
    >>> bounds[0], *(round(bound, 6) for bound in bounds[1:])
    (None, 0.066667, 0.44)
    """
    return tuple(
        eta_bound_corollary1(total, lam, L1, L2, G, sigma2, E) for total in itertools.accumulate(grad_sq)
    )


def lambda_bound_corollary1(first_grad_sq: float, L2: float, G: float, E: int) -> float | None:
    """Eq. 17: λ_t must stay below ‖∇L_{tE+1/2}‖²/(L2·E·G).

    >>> lambda_bound_corollary1(6, L2=3, G=4, E=10)
    0.05
    """
    return _positive_ratio(first_grad_sq, L2 * E * G)


def theorem2(
    eps: float,
    lam: float,
    L1: float,
    L2: float,
    G: float,
    sigma2: float,
    E: int,
    delta: float,
    eta: float,
) -> Theorem2:
    """Rounds until the mean squared gradient norm is below eps; delta = L_0 − L*, with L* = 0 if unknown.

    `rounds` is None unless eta lies below its bound: exactly then Eq. 18 has a positive denominator.

    >>> theorem2(1, 0.01, L1=2, L2=3, G=4, sigma2=1, E=10, delta=2.3, eta=0.5).rounds is None
    True
    """
    eta_bound = _positive_ratio(2 * (eps - lam * L2 * G), L1 * (eps + sigma2))
    lam_bound = _ratio(eps, L2 * G)
    if eta_bound is None or not 0 < eta < eta_bound:
        return Theorem2(lam_bound, eta_bound, None)
    gain = E * eps * (2 * eta - L1 * eta**2) - E * eta * (L1 * eta * sigma2 + 2 * lam * L2 * G)
    return Theorem2(lam_bound, eta_bound, _positive_ratio(2 * delta, gain) or 0.0)


def lipschitz(moved: Tensor, changed: Tensor) -> float:
    """Largest ‖change of the output‖ / ‖move of the input‖ over T moves; 0 if nothing moved.

    moved [T,P]; changed [T,...,Q], the norm taken over the last axis. With gradient differences on
    the same data and prototypes this estimates L1, with embedding differences of probe samples L2.
    """
    step = torch.linalg.vector_norm(moved.double(), dim=-1)
    valid = step >= STILL
    if not valid.any():
        return 0.0
    change = torch.linalg.vector_norm(changed.double(), dim=-1).reshape(len(step), -1)
    return float((change[valid] / step[valid, None]).max())


def gradient_moments(batch_grads: Tensor, full_grads: Tensor) -> tuple[float, float]:
    """Estimates of σ² and G from T iterates: batch_grads [T,B,P] per mini-batch, full_grads [T,P].

    σ² = max_t mean_b‖g − ∇L‖², G = max_t mean_b‖g‖.
    """
    noise = (batch_grads - full_grads[:, None]).double().square().sum(-1).mean(1)
    norm = torch.linalg.vector_norm(batch_grads.double(), dim=-1).mean(1)
    return float(noise.max()), float(norm.max())


def _positive_ratio(top: float, bottom: float) -> float | None:
    return _ratio(top, bottom) if top > 0 else None


def _ratio(top: float, bottom: float) -> float:
    """A constant estimated as zero bounds nothing."""
    return top / bottom if bottom > 0 else math.inf
