"""Random numbers from keys: equal keys agree, different keys are independent, nothing leaks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from protofed.core.rng import key_seed, numpy_generator, seed_torch, seeded, torch_generator

quick = settings(max_examples=25, deadline=None)
parts = st.one_of(st.integers(-5, 1000), st.text(max_size=4), st.none())
keys = st.lists(parts, min_size=1, max_size=5).map(tuple)


@quick
@given(keys, keys)
def test_different_keys_give_different_seeds(one: tuple[int | str | None, ...], two: tuple[int, ...]) -> None:
    assume(repr(one) != repr(two))
    assert key_seed(*one) != key_seed(*two)


@quick
@given(keys)
def test_seeds_fit_into_63_bits(key: tuple[int | str | None, ...]) -> None:
    assert 0 <= key_seed(*key) < 2**63


def test_parts_of_a_key_do_not_run_into_each_other() -> None:
    """(1, 11) and (11, 1) and (111,) are different keys; so are 1 and "1"."""
    seeds = {key_seed(1, 11), key_seed(11, 1), key_seed(111), key_seed(1, "11"), key_seed("1", 11)}
    assert len(seeds) == 5


def test_a_seed_is_fixed_for_good() -> None:
    """Changing this number would change every published result."""
    assert key_seed(0, 1, "batches") == 7789591382744151171


def test_equal_keys_give_equal_numbers() -> None:
    one, two = (torch.rand(5, generator=torch_generator(3, "x")) for _ in range(2))
    assert torch.equal(one, two)
    assert np.array_equal(numpy_generator(3, "x").random(5), numpy_generator(3, "x").random(5))


def test_streams_of_neighbouring_keys_are_uncorrelated() -> None:
    """1,000 draws: the correlation of independent streams is below 0.15 (4.7 standard errors)."""
    streams = torch.stack([torch.rand(1000, generator=torch_generator(0, c, "batches")) for c in range(8)])
    off_diagonal = torch.corrcoef(streams) - torch.eye(8)
    assert off_diagonal.abs().max() < 0.15


def test_seeded_sets_the_global_generator_and_restores_it() -> None:
    before = torch.get_rng_state()
    with seeded(1, "init"):
        inside = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    with seeded(1, "init"):
        assert torch.equal(torch.rand(3), inside)


def test_seeded_restores_after_an_error() -> None:
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError), seeded(2):
        torch.rand(3) @ torch.rand(2)
    assert torch.equal(torch.get_rng_state(), before)


def test_seeding_torch_gives_the_numbers_of_manual_seed() -> None:
    torch.manual_seed(7)
    expected = torch.rand(5)
    seed_torch(7)
    assert torch.equal(torch.rand(5), expected)
