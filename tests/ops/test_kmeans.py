"""Distances to centres and k-means++ seeding."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.ops.kmeans import plus_plus, squared_distances


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 5), st.integers(0, 1000))
def test_distances_equal_a_loop(n, k, p, seed):
    rng = np.random.default_rng(seed)
    rows, centres = rng.normal(size=(n, p)), rng.normal(size=(k, p))
    found = squared_distances(torch.tensor(rows), torch.tensor(centres))
    assert found.shape == (n, k)
    for i in range(n):
        for j in range(k):
            assert float(found[i, j]) == pytest.approx(sum((rows[i] - centres[j]) ** 2))


def test_equal_rows_are_at_distance_zero():
    """Also for long rows in float32, where a product form would leave a remainder."""
    rows = 100 + torch.randn(1, 1000, generator=generator())
    assert squared_distances(rows, rows).item() == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_seeds_fall_into_different_far_groups(seed):
    """Rows near 0, 1e6 and −1e6: a second seed from a group already taken has odds below 1e-11."""
    rows = torch.tensor([[0.0], [1.0], [1e6], [1e6 + 1], [-1e6]], dtype=torch.float64)
    groups = {0: 0, 1: 0, 2: 1, 3: 1, 4: 2}
    chosen = plus_plus(rows, 3, generator(seed))
    assert {groups[c] for c in chosen} == {0, 1, 2}


def test_odds_are_squared_distances():
    """Rows 0, 1 and 3; given the first seed 0 the others have odds 1 : 9, so row 2 comes in nine of ten."""
    rows = torch.tensor([[0.0], [1.0], [3.0]])
    drawn = [plus_plus(rows, 2, generator(seed)) for seed in range(600)]
    after_zero = [two for one, two in drawn if one == 0]
    assert len(after_zero) > 150
    assert sum(two == 2 for two in after_zero) / len(after_zero) == pytest.approx(0.9, abs=0.07)


def test_fewer_different_rows_than_seeds():
    rows = torch.ones(2, 3)
    chosen = plus_plus(rows, 4, generator())
    assert len(chosen) == 4
    assert set(chosen) <= {0, 1}


def test_the_same_generator_gives_the_same_seeds():
    rows = torch.randn(10, 2, generator=generator(5))
    assert plus_plus(rows, 3, generator(1)) == plus_plus(rows, 3, generator(1))
