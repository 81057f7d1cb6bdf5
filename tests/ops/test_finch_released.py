"""FINCH against its released implementation (the package finch-clust)."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from protofed.ops.finch import cluster_means, finch, partitions

with warnings.catch_warnings():  # it warns that an optional package is missing
    warnings.simplefilter("ignore")
    released = pytest.importorskip("finch", reason="finch-clust is the oracle of these tests")

sizes = st.tuples(st.integers(2, 300), st.integers(2, 64), st.integers(0, 10**6))


def normal(n: int, d: int, seed: int) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def blobs(centres: int, each: int, d: int, seed: int) -> Tensor:
    """Clusters within clusters, so that FINCH needs several levels."""
    tops = normal(4, d, seed).repeat_interleave(centres, 0)
    middles = (tops + 0.2 * normal(len(tops), d, seed + 1)).repeat_interleave(each, 0)
    return middles + 0.02 * normal(len(middles), d, seed + 2)


def pairs(labels: Any) -> np.ndarray:
    """A partition as the matrix "same cluster", which does not depend on the numbering."""
    labels = np.asarray(labels)
    return labels[:, None] == labels[None]


def smallest_gap(x: Tensor) -> float:
    """How much nearer the first neighbour is than the second, over all levels."""
    gap = float("inf")
    for rows in (x.double(), *(cluster_means(x.double(), p) for p in partitions(x))):
        unit = torch.nn.functional.normalize(rows)
        cosine = (unit @ unit.T).fill_diagonal_(-torch.inf)
        if len(rows) > 2:
            top = cosine.topk(2).values
            gap = min(gap, float((top[:, 0] - top[:, 1]).min()))
    return gap


@given(sizes)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_agrees_with_released_code(case: tuple[int, int, int]) -> None:
    """Rows that are almost tied are left out: the released code decides them by float32 noise."""
    x = normal(*case)
    assume(smallest_gap(x) > 1e-6)
    columns, counts, _ = released.FINCH(x.numpy(), distance="cosine", ensure_early_exit=False)
    ours = list(partitions(x))
    assert [int(p.max()) + 1 for p in ours] == list(counts)
    assert (pairs(finch(x)) == pairs(columns[:, -1])).all()
    assert all((pairs(p) == pairs(columns[:, level])).all() for level, p in enumerate(ours))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_agrees_with_released_code_on_deep_trees(seed: int, metric: str) -> None:
    x = blobs(6, 10, 16, seed)
    columns, counts, _ = released.FINCH(x.numpy(), distance=metric, ensure_early_exit=False)
    ours = list(partitions(x, metric))
    assert len(ours) == len(counts) >= 3
    assert all((pairs(p) == pairs(columns[:, level])).all() for level, p in enumerate(ours))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_early_exit_agrees_with_released_code(
    seed: int, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two repairs to the oracle: links it sets to zero still join rows in the sparse graph, hence the
    wrapper; and it also stops at a step that removes one cluster, hence only its levels are compared.
    """
    code = importlib.import_module("finch.finch")
    link_all = code.get_clust

    def link_short(links: Any, distances: Any, limit: float | None = None) -> Any:
        if limit is not None:
            links = links.multiply(distances <= limit).tocsr()
            links.eliminate_zeros()
        return link_all(links, distances)

    monkeypatch.setattr(code, "get_clust", link_short)
    x = blobs(6, 10, 16, seed)
    columns, counts, _ = released.FINCH(x.numpy(), distance=metric, ensure_early_exit=True)
    ours = list(partitions(x, metric, early_exit=True))
    assert len(ours) >= len(counts) >= 2
    assert all((pairs(p) == pairs(columns[:, level])).all() for level, p in zip(range(len(counts)), ours))
    assert all(int(p.max()) + 1 == counts[-1] - 1 for p in ours[len(counts) :])
