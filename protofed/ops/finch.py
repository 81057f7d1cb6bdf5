"""FINCH: clustering by first neighbours, without a number of clusters or a threshold; and FINCH*.

Each row is linked to its nearest other row; the connected components are the first partition. The
means of its clusters are clustered the same way, and so on. FPL, FedPLVM and FedPLCC take the last
partition before everything would fall into one cluster.

Sarfraz, Sharma and Stiefelhagen, *Efficient Parameter-free Clustering Using First Neighbor
Relations*, CVPR 2019. FINCH* is from *An Enhanced Federated Prototype Learning Method under Domain
Shift*: the same clusters, and every cluster carries the sum of the weights of its members.

Departures:
- Distances are computed in float64 and compared at float32 resolution (see `_distances`), so that
  equal or parallel rows are true ties, whatever the dtype, the order of the rows or the block size.
- A later step is kept whenever it leaves fewer clusters, but more than one. The released code also
  drops a step that removes only one cluster; without early exit that cannot happen, because every
  step at least halves the count.
- Early exit really drops the long links. The released package (0.2.3) sets them to zero, but a stored
  zero still joins two rows in its sparse graph, so there the option changes nothing.
- Values that are not finite are not looked for (uploads are checked where they arrive); they give
  meaningless labels, never an error or an endless loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict, Unpack

import torch
from torch import Tensor

from ..core.errors import ConfigError, unknown

# Entries of one block of the distance matrix: 32 MB in float64, so 2,048 rows still are one block.
BLOCK_ENTRIES = 1 << 22

# Cosines are compared in steps of 2^-24, the spacing of float32 below 1.
_COSINE_STEPS = float(1 << 24)


class FinchOptions(TypedDict, total=False):
    """What the functions below pass on to `finch`."""

    metric: str
    level: str
    early_exit: bool


def finch(x: Tensor, metric: str = "cosine", level: str = "last", early_exit: bool = False) -> Tensor:
    """Cluster the rows of x [N,D]: labels [N] in 0..k-1, numbered by the first member.

    `level` picks the last retained partition or the first one. `early_exit` drops, in later steps,
    the links that are longer than the longest link of the first.

    >>> angle = torch.tensor([0.0, 2, 5, 90, 93, 95]).deg2rad()
    >>> finch(torch.stack([angle.cos(), angle.sin()], 1)).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    if level not in ("last", "first"):
        raise ConfigError(f"finch: {unknown('level', level, ['last', 'first'])}")
    found = partitions(x, metric, early_exit)
    return next(found) if level == "first" else list(found)[-1]


def cluster_sums(x: Tensor, labels: Tensor, k: int) -> Tensor:
    """Sums of the rows of x [N,...] over the clusters 0..k-1: [k,...]."""
    return x.new_zeros((k, *x.shape[1:])).index_add_(0, labels, x)


def cluster_means(x: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    """Means of the rows of x [N,D] per cluster: [k,D], weighted if weights [N] are given."""
    w = x.new_ones(len(x)) if weights is None else weights.to(x.dtype)
    k = count_clusters(labels)
    return cluster_sums(x * w[:, None], labels, k) / cluster_sums(w, labels, k)[:, None]


def count_clusters(labels: Tensor) -> int:
    """k of labels 0..k-1."""
    return int(labels.max()) + 1 if len(labels) else 0


def finch_centres(
    x: Tensor,
    weights: Tensor | None = None,
    weighted_centre: bool = False,
    **options: Unpack[FinchOptions],
) -> tuple[Tensor, Tensor]:
    """FINCH*: the centres [k,D] of the clusters of x [N,D] and the weights [k] they stand for.

    The weight of a cluster is the sum of the (positive) weights [N] of its members, by default 1
    each. The centre is the plain mean, as the paper changes only the weights; `weighted_centre`
    weighs it too.
    """
    labels = finch(x, **options)
    w = x.new_ones(len(x)) if weights is None else weights.to(x.dtype)
    centres = cluster_means(x, labels, w if weighted_centre else None)
    return centres, cluster_sums(w, labels, len(centres))


def finch_by_class(
    x: Tensor,
    y: Tensor,
    weights: Tensor | None = None,
    weighted_centre: bool = False,
    **options: Unpack[FinchOptions],
) -> tuple[Tensor, Tensor, Tensor]:
    """FINCH* within every class of x [N,D], y [N]: centres [J,D], classes [J], weights [J].

    Classes ascend; a class without rows has no centres, and no rows at all give J = 0.
    """
    w = x.new_ones(len(x)) if weights is None else weights.to(x.dtype)
    classes, sizes = torch.unique(y, return_counts=True)
    order = torch.argsort(y, stable=True)
    members = order.tensor_split(sizes.cumsum(0).cpu()[:-1])
    found = [finch_centres(x[i], w[i], weighted_centre, **options) for i in members if len(i)]
    counts = torch.tensor([len(u) for _, u in found], dtype=torch.long, device=x.device)
    centres = torch.cat([x[:0], *(c for c, _ in found)])
    return centres, classes.repeat_interleave(counts), torch.cat([w[:0], *(u for _, u in found)])


def first_neighbours(x: Tensor, metric: str = "cosine") -> tuple[Tensor, Tensor]:
    """For every row of x [N,D], N ≥ 2: the nearest other row [N], lowest index on ties, and its distance.

    Works in blocks of rows, so memory is bounded by BLOCK_ENTRIES, not by N².
    """
    if metric not in ("cosine", "euclidean"):
        raise ConfigError(f"finch: {unknown('metric', metric, ['cosine', 'euclidean'])}")
    rows = x.detach().double()
    if metric == "cosine":
        norm = rows.norm(dim=1, keepdim=True)
        rows = rows / norm.where(norm > 0, 1.0)
    step = max(1, BLOCK_ENTRIES // len(rows))
    nearest = rows.new_empty(len(rows), dtype=torch.long)
    length = rows.new_empty(len(rows))
    for start in range(0, len(rows), step):
        # Written in place: small results kept between the large blocks would fragment the heap.
        block = slice(start, start + step)
        _nearest_to_block(rows, start, metric, length[block], nearest[block])
    return nearest, length


def _nearest_to_block(rows: Tensor, start: int, metric: str, length: Tensor, nearest: Tensor) -> None:
    distances = _distances(rows[start : start + len(nearest)], rows, metric)
    distances.diagonal(start).fill_(torch.inf)
    # min takes the first of several equal minima: ties go to the lowest index.
    torch.min(distances, 1, out=(length, nearest))


def _distances(block: Tensor, rows: Tensor, metric: str) -> Tensor:
    """Distances [B,N] in which mathematical ties are equal numbers.

    A matrix product rounds an entry differently depending on its place in the matrix, so equal rows
    would get distances that differ in the last bit. In float64 that noise is about 1e-16; rounding
    to a grid of 6e-8 removes it. Zero rows have cosine 0, so distance 1, to all.
    Euclidean distances by a matrix product lose digits to cancellation, which no fixed grid mends;
    cdist without it subtracts first. It is slower, and an option that no method uses by default.
    """
    if metric == "euclidean":
        exact = torch.cdist(block, rows, compute_mode="donot_use_mm_for_euclid_dist")
        return exact.float().double()
    cosine = block @ rows.T
    return cosine.mul_(-_COSINE_STEPS).round_().add_(_COSINE_STEPS).div_(_COSINE_STEPS)


def components(link: Tensor) -> Tensor:
    """Connected components of the graph with edges i – link[i]: labels [N] numbered by first member.

    Every component of such a graph has exactly one cycle. Following links 2^s steps at a time, all
    rows reach their cycle, and its lowest index names the component.
    """
    n = len(link)
    rows = torch.arange(n, device=link.device)
    reach, lowest = link, torch.minimum(rows, link)
    for _ in range(n.bit_length()):
        lowest = torch.minimum(lowest, lowest[reach])
        reach = reach[reach]
    root = lowest[reach]
    first_member = rows.scatter_reduce(0, root, rows, "amin", include_self=False)[root]
    labels: Tensor = torch.unique(first_member, return_inverse=True)[1]
    return labels


def partitions(x: Tensor, metric: str = "cosine", early_exit: bool = False) -> Iterator[Tensor]:
    """The retained partitions of the rows of x [N,D], from the finest to the coarsest."""
    if len(x) < 2:
        yield torch.zeros(len(x), dtype=torch.long, device=x.device)
        return
    x = x.detach().double()
    link, length = first_neighbours(x, metric)
    longest = length.max()
    labels = components(link)
    yield labels
    while (k := count_clusters(labels)) > 1:
        link, length = first_neighbours(cluster_means(x, labels), metric)
        if early_exit:
            link = torch.where(length > longest, torch.arange(k, device=x.device), link)
        merged = components(link)
        if count_clusters(merged) in (1, k):
            return
        labels = merged[labels]
        yield labels
