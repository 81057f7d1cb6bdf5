"""FINCH: cases by hand and facts that follow from its definition."""

from __future__ import annotations

import doctest
import importlib
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from protofed.core.errors import ConfigError
from protofed.ops.finch import (
    components,
    finch,
    finch_by_class,
    finch_centres,
    first_neighbours,
    partitions,
)

module = importlib.import_module("protofed.ops.finch")
few = settings(max_examples=25, deadline=None)
sizes = st.tuples(st.integers(2, 300), st.integers(2, 64), st.integers(0, 10**6))


def normal(n: int, d: int, seed: int) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


def at_angles(*degrees: float) -> Tensor:
    angle = torch.tensor(degrees).deg2rad()
    return torch.stack([angle.cos(), angle.sin()], 1)


def pairs(labels: Any) -> np.ndarray:
    """A partition as the matrix "same cluster", which does not depend on the numbering."""
    labels = np.asarray(labels)
    return labels[:, None] == labels[None]


def test_examples_in_the_docstrings() -> None:
    assert doctest.testmod(module).failed == 0


def test_six_unit_vectors() -> None:
    """First neighbours 1,0,1 and 4,5,4: two clusters. Their two means would merge, so that is dropped."""
    x = at_angles(0, 2, 5, 90, 93, 95)
    assert first_neighbours(x)[0].tolist() == [1, 0, 1, 4, 5, 4]
    found = list(partitions(x))
    assert [p.tolist() for p in found] == [[0, 0, 0, 1, 1, 1]]
    assert finch(x).tolist() == finch(x, level="first").tolist() == [0, 0, 0, 1, 1, 1]


def test_two_levels() -> None:
    """Angles 0,1 | 4,5 | 90,91 | 94,95: four pairs, then the pairs at 0.5° and 4.5° merge, and so on."""
    x = at_angles(0, 1, 4, 5, 90, 91, 94, 95)
    first, last = partitions(x)
    assert first.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert last.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert finch(x, level="first").tolist() == first.tolist()
    assert finch(x).tolist() == last.tolist()


def test_early_exit_drops_long_links() -> None:
    """Pairs 1° wide at 0°, 4°, 90°, 94°: links of the second step span 4°, longer than any first link.

    A pair 5° wide at 200° raises the limit above 4°, but not to the 108° from it to the others.
    """
    x = at_angles(0, 1, 4, 5, 90, 91, 94, 95)
    assert [p.tolist() for p in partitions(x, early_exit=True)] == [[0, 0, 1, 1, 2, 2, 3, 3]]
    x = at_angles(0, 1, 4, 5, 90, 91, 94, 95, 200, 205)
    last = list(partitions(x, early_exit=True))[-1]
    assert last.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert finch(x).tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]


def test_labels_are_numbered_by_first_member() -> None:
    x = at_angles(90, 0, 93, 2, 95, 5)
    assert finch(x).tolist() == [0, 1, 0, 1, 0, 1]


def test_means_are_of_rows_that_are_not_normalised() -> None:
    """(1,0) and (0,3) have the mean (0.5,1.5), at 71.6°; normalised first it would lie at 45°."""
    x = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
    assert finch_centres(x)[0].tolist() == [[0.5, 1.5]]


@pytest.mark.parametrize(("long_row", "expected"), [(4, [0] * 6 + [1] * 4), (5, [0] * 4 + [1] * 6)])
def test_long_rows_draw_the_mean(long_row: int, expected: list[int]) -> None:
    """The pair at 40° and 60° has its mean where the long row points, so it joins that side."""
    x = at_angles(-25, -24, 0, 1, 40, 60, 99, 100, 120, 121)
    x[long_row] *= 100
    assert finch(x).tolist() == expected


@given(sizes)
@few
def test_facts(case: tuple[int, int, int]) -> None:
    n, d, seed = case
    x = normal(n, d, seed)
    found = list(partitions(x))
    counts = [int(p.max()) + 1 for p in found]
    assert all(int(p.bincount().min()) >= 2 for p in found)
    assert counts == sorted(set(counts), reverse=True)
    assert counts[-1] > 1 or len(counts) == 1
    for fine, coarse in itertools.pairwise(found):
        assert not (pairs(fine) & ~pairs(coarse)).any()
    for p in found:
        first_members = [p.tolist().index(label) for label in range(int(p.max()) + 1)]
        assert first_members == sorted(first_members)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize(("n", "allowed"), [(2, {1}), (3, {1}), (4, {1, 2}), (5, {1, 2})])
def test_small_n(n: int, allowed: set[int], metric: str) -> None:
    counts = {int(finch(normal(n, 3, seed), metric).max()) + 1 for seed in range(40)}
    assert counts == allowed


def test_one_row_and_none() -> None:
    assert finch(torch.ones(1, 3)).tolist() == [0]
    assert finch(torch.ones(0, 3)).tolist() == []
    centres, weight = finch_centres(torch.ones(0, 3))
    assert centres.shape == (0, 3)
    assert weight.shape == (0,)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows_at_once", [1, 7, 64])
def test_blocks_change_nothing(
    metric: str, dtype: torch.dtype, rows_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row occurs three times, and once more tripled (parallel): ties in every row."""
    rows = normal(50, 37, 0).to(dtype)
    x = torch.cat([rows, rows, 3 * rows, rows])
    whole = first_neighbours(x, metric), finch(x, metric)
    monkeypatch.setattr(module, "BLOCK_ENTRIES", rows_at_once * len(x))
    blocked = first_neighbours(x, metric), finch(x, metric)
    assert torch.equal(whole[0][0], blocked[0][0])
    assert torch.equal(whole[0][1], blocked[0][1])
    assert torch.equal(whole[1], blocked[1])


@given(st.integers(2, 40), st.integers(1, 40), st.integers(0, 10**6))
@few
def test_equal_rows_are_linked_to_their_first_copy(n: int, d: int, seed: int) -> None:
    """Four copies: all are tied at distance 0, so each links to the first copy, the first to the second."""
    x = normal(n, d, seed)
    x = torch.cat([x, x, x, x])
    link, distance = first_neighbours(x, "euclidean")
    assert link.tolist() == [*range(n, 2 * n), *list(range(n)) * 3]
    assert (distance == 0).all()
    if d > 3:  # in fewer dimensions two of the rows may be parallel
        assert finch(x, level="first").tolist() == list(range(n)) * 4


def test_parallel_rows_are_tied() -> None:
    """Multiples of one row have cosine distance 0, though their unit vectors differ in the last bit."""
    row = normal(1, 33, 5)
    x = row * torch.arange(1, 31)[:, None]
    link, distance = first_neighbours(x)
    assert link.tolist() == [1] + [0] * 29
    assert (distance == 0).all()


def test_zero_rows_have_distance_one() -> None:
    """Rows 0 and 2 are zero: tied with all, they link to the lowest other row.

    Row 3 is opposite to row 1 (distance 2), so its nearest is row 0 (distance 1); so is row 1's.
    """
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [-2.0, 0.0]])
    link, distance = first_neighbours(x)
    assert link.tolist() == [1, 0, 0, 0]
    assert distance.tolist() == [1, 1, 1, 1]
    assert finch(torch.zeros(6, 3)).tolist() == [0] * 6


def test_values_that_are_not_finite_end() -> None:
    x = normal(30, 4, 0)
    x[3] = torch.nan
    x[7, 0] = torch.inf
    assert finch(x).shape == (30,)
    assert finch(torch.full((9, 2), torch.nan)).shape == (9,)


@given(st.integers(1, 60), st.integers(0, 10**6))
@few
def test_components_of_any_links(n: int, seed: int) -> None:
    """Against repeated merging, on links with long cycles and self-links."""
    link = torch.randint(n, (n,), generator=torch.Generator().manual_seed(seed))
    names = list(range(n))
    for i, j in enumerate(link.tolist()):
        names = [names[i] if name == names[j] else name for name in names]
    order = list(dict.fromkeys(names))
    assert components(link).tolist() == [order.index(name) for name in names]


def test_components_of_one_long_cycle() -> None:
    assert components(torch.arange(1000).roll(-1)).tolist() == [0] * 1000


def test_weights_and_centres() -> None:
    """(1,0), (0.9,0.1) weigh 1 and 3; (0,1), (0,3) weigh 2 and 6.

    Sums 4 and 8. Plain means (0.95,0.05), (0,2); weighted (3.7/4, 0.3/4) and (0, (2+18)/8).
    """
    x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.0, 3.0]])
    weights = torch.tensor([1, 3, 2, 6])
    centres, w = finch_centres(x, weights)
    torch.testing.assert_close(centres, torch.tensor([[0.95, 0.05], [0.0, 2.0]]))
    assert w.tolist() == [4, 8]
    centres, w = finch_centres(x, weights, weighted_centre=True)
    torch.testing.assert_close(centres, torch.tensor([[0.925, 0.075], [0.0, 2.5]]))
    assert w.tolist() == [4, 8]
    assert finch_centres(x)[1].tolist() == [2, 2]


@given(st.integers(0, 120), st.integers(0, 10**6), st.booleans())
@few
def test_by_class_is_finch_of_each_class(n: int, seed: int, weighted_centre: bool) -> None:
    gen = torch.Generator().manual_seed(seed)
    x, y = normal(n, 5, seed).double(), torch.randint(0, 9, (n,), generator=gen) * 3
    w = torch.rand(n, generator=gen, dtype=torch.float64) + 0.1
    centres, cls, sums = finch_by_class(x, y, w, weighted_centre)
    assert cls.tolist() == sorted(cls.tolist())
    assert set(cls.tolist()) == set(y.tolist())
    assert centres.dtype == sums.dtype == torch.float64
    torch.testing.assert_close(sums.sum(), w.sum())
    for c in set(y.tolist()):
        own, own_sums = finch_centres(x[y == c], w[y == c], weighted_centre)
        torch.testing.assert_close(centres[cls == c], own)
        torch.testing.assert_close(sums[cls == c], own_sums)


def test_by_class_passes_options_on() -> None:
    x = at_angles(0, 1, 4, 5, 90, 91, 94, 95)
    y = torch.full((8,), 4)
    assert finch_by_class(x, y)[1].tolist() == [4, 4]
    assert finch_by_class(x, y, level="first")[1].tolist() == [4] * 4
    assert finch_by_class(x, y, early_exit=True)[2].tolist() == [2] * 4


class LargestTensor(TorchDispatchMode):
    """Remembers the largest number of entries that any operation returned."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        made = [t for t in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(t, Tensor)]
        self.entries = max([self.entries, *(t.numel() for t in made)])
        return out


def test_memory_is_bounded() -> None:
    """5,000 rows: the distance matrix would have 25 million entries."""
    with LargestTensor() as largest:
        labels = finch(normal(5000, 8, 0))
    assert 1_000_000 < largest.entries <= module.BLOCK_ENTRIES
    assert len(labels) == 5000


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match="unknown metric 'cosin'; did you mean 'cosine'"):
        finch(torch.ones(3, 2), metric="cosin")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="unknown level 'best'"):
        finch(torch.ones(3, 2), level="best")  # type: ignore[arg-type]
