"""Distances and similarities between embeddings and prototypes, with gradients that stay finite.

`DISTANCES` holds the choices of φ for pairs of rows (FedProto's distance ablation and its kin);
`pairwise_l2`, `cosine` and `power_similarity` compare every row with every prototype. All of them
are plain tensor formulas, so they run under `torch.func.vmap`.

Sources: *FedProto* (l1, l2 and EMD as choices of the distance; its earlier version, §4.4, cross-entropy
and ReLU-based L2; all but l1 and l2 are named there and not defined, the forms here are ours), *FedTGP*
(clamped root), *FedPLVM* and *FedPLCC* (power of the cosine).

Departures, all for the sake of gradients:
- The cosine of a row shorter than 1e-8 is taken as constant: its true slope is of the order 1e8.
- The published power of a cosine has no guard: a negative base gives NaN, zero an infinite slope.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

ROOT_EPS = 1e-12  # below the square root: the slope at zero distance is 0, not infinite
NORM_EPS = 1e-8  # shortest norm that a cosine divides by
COSINE_EPS = 1e-6  # smallest cosine that is raised to a power


def l2(a: Tensor, b: Tensor) -> Tensor:
    """√(‖a−b‖² + 1e-12) of rows [...,D]: [...]."""
    return (l2sq(a, b) + ROOT_EPS).sqrt()


def l2sq(a: Tensor, b: Tensor) -> Tensor:
    """‖a−b‖² of rows [...,D]: [...]."""
    return (a - b).square().sum(-1)


def mse(a: Tensor, b: Tensor) -> Tensor:
    """‖a−b‖²/D of rows [...,D]: [...]."""
    return (a - b).square().mean(-1)


def l1(a: Tensor, b: Tensor) -> Tensor:
    """Σ|a−b| of rows [...,D]: [...]. The slope at equal coordinates is 0."""
    return (a - b).abs().sum(-1)


def emd(a: Tensor, b: Tensor) -> Tensor:
    """Earth mover's distance of rows [...,D] read as histograms over the coordinates, divided by D.

    Rows become histograms by ReLU, + 1e-8 (so that a row without positive entries is uniform), and
    division by their sum. In one dimension the distance is the sum of |differences of cumulative sums|.
    """
    return (_histogram(a) - _histogram(b)).cumsum(-1).abs().mean(-1)


def _histogram(a: Tensor) -> Tensor:
    mass = a.relu() + 1e-8
    return mass / mass.sum(-1, keepdim=True)


def relu_l2(a: Tensor, b: Tensor) -> Tensor:
    """Euclidean distance of what ReLU leaves of rows [...,D]: [...]."""
    return l2(a.relu(), b.relu())


def softmax_ce(a: Tensor, b: Tensor) -> Tensor:
    """Cross-entropy of softmax(a) against softmax(b), of rows [...,D], less its least value, the entropy of
    softmax(b), which has no slope in a: 0 for equal rows."""
    log_a, log_b = a.log_softmax(-1), b.log_softmax(-1)
    return (log_b.exp() * (log_b - log_a)).sum(-1)


DISTANCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "l2": l2,
    "l2sq": l2sq,
    "mse": mse,
    "l1": l1,
    "emd": emd,
    "relu_l2": relu_l2,
    "ce": softmax_ce,
}


def pairwise_l2(a: Tensor, b: Tensor, exact: bool = False) -> Tensor:
    """Euclidean distances √max(‖a−b‖², 1e-12) between the rows of a [N,D] and b [J,D]: [N,J].

    By default ‖a‖² + ‖b‖² − 2a·b, one matrix product. Its error in the square is about
    1e-7·(‖a‖² + ‖b‖²) in float32, whatever the distance: ranking prototypes that are far apart is
    safe, but two equal rows of norm 10 can come out 3e-3 apart. `exact` subtracts first, which is
    accurate to the last digits, but needs N·J·D numbers of memory: for small sizes.
    """
    if exact:
        squared = l2sq(a[:, None], b[None])
    else:
        norms = a.square().sum(-1)[:, None] + b.square().sum(-1)[None]
        squared = norms - 2 * a @ b.T
    # Round-off makes the square negative and the root NaN; below the clamp the slope is 0.
    return squared.clamp(min=ROOT_EPS).sqrt()


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """a·b / (max(‖a‖,1e-8)·max(‖b‖,1e-8)) between the rows of a [N,D] and b [J,D]: [N,J].

    A zero row has similarity 0 to all.
    """
    return _unit(a) @ _unit(b).T


def row_cosine(a: Tensor, b: Tensor) -> Tensor:
    """The same for pairs of rows [...,D]: [...]."""
    return (_unit(a) * _unit(b)).sum(-1)


def _unit(a: Tensor) -> Tensor:
    norm = a.norm(dim=-1, keepdim=True)
    unit = a / norm.clamp(min=NORM_EPS)
    return torch.where(norm < NORM_EPS, unit.detach(), unit)


def power_similarity(a: Tensor, b: Tensor, alpha: float, signed: bool = False) -> Tensor:
    """s_α = clamp(cos, 1e-6, 1)^α between the rows of a [N,D] and b [J,D]: [N,J].

    `signed` keeps opposite directions apart: sign(cos)·|cos|^α, a straight line through zero where
    |cos| < 1e-6, since the slope of the power would be infinite there.
    """
    s = cosine(a, b)
    if signed:
        return s * s.abs().clamp(COSINE_EPS, 1.0) ** (alpha - 1)
    return s.clamp(COSINE_EPS, 1.0) ** alpha
