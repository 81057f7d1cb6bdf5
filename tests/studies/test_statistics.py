"""Significance and spreads, with numbers derived by hand."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.studies.statistics import holm, mean, paired_p, sample_std


def keyed(values):
    return dict(enumerate(values))


def test_one_sign():
    """Differences 1, …, 6, all positive: W = 0 has probability 1/64 on either side: 2/64."""
    assert paired_p(keyed([1, 2, 3, 4, 5, 6]), keyed([0] * 6)) == pytest.approx(0.03125)


def test_one_difference_of_the_other_sign():
    """Differences −1, 2, …, 6: sums of negative ranks of at most 1 are {} and {1}: 2 of 64, twice: 4/64."""
    assert paired_p(keyed([-1, 2, 3, 4, 5, 6]), keyed([0] * 6)) == pytest.approx(0.0625)


def test_too_few_pairs_say_nothing():
    assert math.isnan(paired_p(keyed([1, 2, 3, 4, 5]), keyed([0] * 5)))
    assert math.isnan(paired_p({("a", i): 1.0 for i in range(9)}, {("b", i): 0.0 for i in range(9)}))


def test_equal_values_do_not_differ():
    assert paired_p(keyed([50.0] * 8), keyed([50.0] * 8)) == 1.0


def test_only_shared_keys_count():
    one = {**keyed([1, 2, 3, 4, 5, 6]), "other": -1000.0}
    assert paired_p(one, keyed([0] * 6)) == pytest.approx(0.03125)


def test_holm_by_hand():
    """Sorted 0.01, 0.03, 0.04 times 3, 2, 1: 0.03, 0.06, 0.04, and never less than the one before."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.9]) == [1.0, 1.0]


def test_holm_leaves_out_what_was_not_tested():
    first, missing, last = holm([0.01, math.nan, 0.04])
    assert (first, last) == pytest.approx((0.02, 0.04))
    assert math.isnan(missing)


def test_protomargin_prints_the_sample_deviation():
    """Table 3, FedAvg: 92.7, 88.7 and 85.1 are printed as 88.8 ± 3.8."""
    values = [92.7, 88.7, 85.1]
    assert round(mean(values), 1) == 88.8
    assert round(sample_std(values), 1) == 3.8


def test_nothing_has_no_mean_and_one_no_spread():
    assert math.isnan(mean([]))
    assert math.isnan(sample_std([1.0]))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_keeps_the_order_and_raises_values(values):
    adjusted = holm(values)
    assert all(p <= a <= 1 for p, a in zip(values, adjusted, strict=True))
    order = sorted(range(len(values)), key=lambda i: values[i])
    assert all(adjusted[i] <= adjusted[j] for i, j in itertools.pairwise(order))
