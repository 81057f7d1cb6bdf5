"""Margins and attention: numbers by hand, a slow loop, and the edges."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from protofed.ops.margins import attention_weights, displacement, minmax, spm

ONE = torch.tensor([[0.0, 0], [1, 0]], dtype=torch.float64)
TWO = torch.tensor([[0.0, 0.5], [1, 1]], dtype=torch.float64)
BOTH = torch.tensor([True, True])


def test_minmax_by_hand() -> None:
    """(1,3,2): minus 1, over 2 → (0,1,½). (−4,0): (0,1). A constant prototype has no span: zeros."""
    rows = torch.tensor([[1.0, 3, 2], [-4, 0, -4], [7, 7, 7]])
    assert minmax(rows).tolist() == [[0, 1, 0.5], [0, 1, 0], [0, 0, 0]]


def test_displacement_and_margin_by_hand() -> None:
    """d⁺: ½ and 1. d⁻: (0,0)–(1,1) √2 and (1,0)–(0,½) √1.25. μ = (√2−½)/(√2+½), (√1.25−1)/(√1.25+1)."""
    plus, minus = displacement(ONE, TWO, BOTH)
    assert plus.tolist() == [0.5, 1]
    assert minus.tolist() == pytest.approx([math.sqrt(2), math.sqrt(1.25)])
    margin = spm(ONE, TWO, BOTH)
    assert margin.tolist() == pytest.approx([0.477592, 0.055728], abs=1e-6)
    assert float(margin.sum().sigmoid()) == pytest.approx(0.630257, abs=1e-6)


def test_only_shared_classes_count() -> None:
    """A third class far away changes nothing while it is not shared; it gets 0 itself."""
    far = torch.full((1, 2), 99.0, dtype=torch.float64)
    shared = torch.tensor([True, True, False])
    margin = spm(torch.cat([ONE, far]), torch.cat([TWO, -far]), shared)
    assert torch.equal(margin[:2], spm(ONE, TWO, BOTH))
    assert margin[2] == 0


def test_three_classes_average_the_other_two() -> None:
    """On a line, one = two = {0, 1, 3}: d⁺ = 0, d⁻ = 2, 1.5, 2.5; every margin is 1."""
    points = torch.tensor([[0.0], [1], [3]])
    plus, minus = displacement(points, points, torch.ones(3, dtype=torch.bool))
    assert plus.tolist() == [0, 0, 0]
    assert minus.tolist() == [2, 1.5, 2.5]
    assert spm(points, points, torch.ones(3, dtype=torch.bool)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("shared", [[False, False], [True, False]])
def test_fewer_than_two_shared_classes_have_no_margin(shared: list[bool]) -> None:
    """μ = 0, hence v = σ(0) = ½; d⁺ of a single shared class exists all the same."""
    mask = torch.tensor(shared)
    assert spm(ONE, TWO, mask).tolist() == [0, 0]
    assert displacement(ONE, TWO, mask)[0].tolist() == [0.5 * shared[0], 0]


def test_equal_prototypes_of_all_classes_have_no_margin() -> None:
    """d⁻ + d⁺ = 0."""
    assert spm(torch.ones(3, 4), torch.ones(3, 4), torch.ones(3, dtype=torch.bool)).tolist() == [0, 0, 0]


def test_attention_by_hand() -> None:
    """s = 0 and ln 3: σ = ½ and ¾, so a = 0.4 and 0.6."""
    assert attention_weights(torch.tensor([0.0, math.log(3)])).tolist() == pytest.approx([0.4, 0.6])


def test_attention_survives_where_the_sigmoid_vanishes() -> None:
    """σ(−1000) and σ(−1000 + ln 3) are 0 in floating point, but their ratio is 1 : 3."""
    scores = torch.tensor([-1000.0, -1000 + math.log(3)], dtype=torch.float64)
    assert scores.sigmoid().sum() == 0
    assert attention_weights(scores).tolist() == pytest.approx([0.25, 0.75])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 4))
def test_margins_equal_a_slow_loop(seed: int, classes: int, clients: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    one, two = torch.rand(2, clients, classes, 3, generator=generator, dtype=torch.float64)
    shared = torch.rand(clients, classes, generator=generator) < 0.7
    margins = spm(one, two, shared)
    assert margins.abs().max() <= 1
    for k in range(clients):
        assert margins[k].tolist() == pytest.approx(slow_spm(one[k], two[k], shared[k].tolist()))


def slow_spm(one: Tensor, two: Tensor, shared: list[bool]) -> list[float]:
    classes = [c for c, s in enumerate(shared) if s]
    margins = [0.0] * len(shared)
    for c in classes if len(classes) > 1 else []:
        plus = float((one[c] - two[c]).norm())
        gaps = [float((one[c] - two[other]).norm()) for other in classes if other != c]
        minus = sum(gaps) / len(gaps)
        margins[c] = (minus - plus) / (minus + plus)
    return margins
