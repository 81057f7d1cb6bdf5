"""Weights as truncated singular value decompositions, for messages.

`pack` turns each matrix A = UΣVᵀ into its first r singular triples: "name/u" [m, r], "name/s" [r],
"name/v" [r, n], together r(m+n+1) floats; or leaves A as it is where that is not smaller. Tensors with
more than two axes are read as [first axis, all others]. `unpack` inverts it up to what was cut off.

Source: *FedKD* (Wu et al. 2022). Departure: a matrix whose energy needs full rank is sent whole, where the
released loop ends with r = 0 and wipes it out. `rule="reference"` does as that loop: it always cuts, also
where the factors are larger than the matrix, and passes over tensors whose first axis is 1. Convolutions
[out, in, h, w] are not flattened there: every pair of channels has the decomposition of its own h × w
kernel, "name/u" [out, in, h, r], and one r for all pairs, from the energies of all added up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ..core.record import Tree

RankRule = Callable[[Tensor, float], int]


def smallest_rank(sigma: Tensor, energy: float) -> int:
    """The smallest r with Σ_{j≤r} σ_j² ≥ energy·Σσ².

    >>> [smallest_rank(torch.tensor([3.0, 2.0, 1.0]), e) for e in (0.9, 0.95)]
    [2, 3]
    """
    held = sigma.square().cumsum(0)
    return min(int((held < energy * held[-1]).sum()) + 1, len(sigma))


def reference_rank(sigma: Tensor, energy: float) -> int:
    """The released loop: r below full rank with Σ_{j≤r} σ_j² > energy·Σσ², else 0.

    >>> [reference_rank(torch.tensor([3.0, 2.0, 1.0]), e) for e in (0.9, 0.95)]
    [2, 0]
    """
    held = sigma.square().cumsum(0)
    enough = torch.nonzero(held[:-1] > energy * held[-1])
    return int(enough[0, 0]) + 1 if len(enough) else 0


RANKS: dict[str, RankRule] = {"smallest": smallest_rank, "reference": reference_rank}


def pack(tree: Mapping[str, Tensor], energy: float, rule: str = "smallest") -> Tree:
    """Every floating tensor with two or more axes by its factors where that is smaller; the rest raw."""
    packed: Tree = {}
    for name, tensor in tree.items():
        packed |= _factors(name, tensor, energy, rule)
    return packed


def unpack(packed: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> Tree:
    """The tensors of `pack`, in the shapes of `like`."""
    found: Tree = {}
    for name, model in like.items():
        if f"{name}/s" in packed:
            u, s, v = (packed[f"{name}/{part}"] for part in "usv")
            found[name] = ((u * s.unsqueeze(-2)) @ v).reshape(model.shape)
        else:
            found[name] = packed[name]
    return found


def _factors(name: str, tensor: Tensor, energy: float, rule: str) -> Tree:
    raw = {name: tensor}
    if tensor.ndim < 2 or not tensor.is_floating_point() or not tensor.numel():
        return raw
    if rule == "reference" and tensor.shape[0] == 1:
        return raw
    # A matrix of zeros has no directions; one with NaN has no decomposition, and the receiver of the
    # raw tensor reports it.
    if not torch.isfinite(tensor).all() or not tensor.any():
        return raw
    matrix = tensor if rule == "reference" and tensor.ndim == 4 else tensor.flatten(1)
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    r = RANKS[rule](s.flatten(0, -2).norm(dim=0) if s.ndim > 1 else s, energy)
    if rule != "reference" and r * (sum(matrix.shape) + 1) >= matrix.numel():
        return raw
    cut = {"u": u[..., :r], "s": s[..., :r], "v": v[..., :r, :]}
    return {f"{name}/{part}": factor.contiguous() for part, factor in cut.items()}
