"""Measures beside accuracy: numbers by hand and slow loops."""

from __future__ import annotations

import doctest
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from protofed.metrics import formulas
from protofed.metrics.formulas import (
    amm,
    confusion_matrix,
    fairness,
    ffd,
    miou,
    mmd,
    rounds_to_converge,
)

few = settings(max_examples=25, deadline=None)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_examples_in_the_docstrings() -> None:
    assert doctest.testmod(formulas).failed == 0


def test_amm_by_hand() -> None:
    """0, 1, 4 on a line: d⁻ = (1+4)/2, (1+3)/2, (4+3)/2, mean (2.5+2+3.5)/3 = 8/3."""
    assert amm(torch.tensor([[0.0], [1], [4]])) == pytest.approx(8 / 3)
    assert math.isnan(amm(torch.ones(1, 2)))


def test_mmd_by_hand() -> None:
    """{0} and {1}: √(2 − 2e^{−1/2}) = 0.887096, and scale does not matter.

    {0,1} and {0,3}: pairs that differ are 1, 3, 1, 2, 3 (0 and 0 do not), squares 1, 1, 4, 9, 9, median 4.
    With q = e^{−1/8}: k(1) = q, k(2) = q⁴, k(3) = q⁹, so
    MMD² = (1+q)/2 + (1+q⁹)/2 − 2·(1 + q⁹ + q + q⁴)/4.
    """
    zero, one = torch.tensor([[0.0]]), torch.tensor([[1.0]])
    assert mmd(zero, one) == pytest.approx(0.887096, abs=1e-6)
    assert mmd(1000 * zero, 1000 * one) == pytest.approx(0.887096, abs=1e-6)
    q = math.exp(-1 / 8)
    expected = (1 + q) / 2 + (1 + q**9) / 2 - (1 + q**9 + q + q**4) / 2
    got = mmd(torch.tensor([[0.0], [1]]), torch.tensor([[0.0], [3]]))
    assert got == pytest.approx(math.sqrt(expected), abs=1e-9)


def test_mmd_grows_with_the_shift_and_vanishes_on_equal_samples() -> None:
    x = normal(60, 5)
    values = [mmd(x, normal(60, 5, seed=1) + shift) for shift in (0, 1, 3)]
    assert values == sorted(values)
    assert mmd(x, x.flip(0)) == pytest.approx(0, abs=1e-6)
    assert mmd(torch.full((9, 3), 0.1), torch.full((5, 3), 0.1)) == 0
    assert mmd(x, 2 * x[:7]) == pytest.approx(mmd(2 * x[:7], x))


def test_ffd() -> None:
    """From 0.4 to 0.3 is a quarter less; to 0.5 a quarter more."""
    assert ffd(0.3, 0.4) == pytest.approx(25)
    assert ffd(0.5, 0.4) == pytest.approx(-25)


def test_rounds_to_converge_by_hand() -> None:
    """Averages of five: rounds 5–8: 54, 72, 88, 90; the last is within 0.5 of 90.

    With a tolerance of 2 round 7 is enough. A later fall does not move the answer.
    """
    curve = [0.0, 10, 80, 90, 90, 90, 90, 90, 90]
    assert rounds_to_converge(curve) == 8
    assert rounds_to_converge(curve, tolerance=2) == 7
    assert rounds_to_converge([*curve, 20, 20]) == 8
    assert rounds_to_converge([50.0] * 5) == 5
    assert rounds_to_converge([50.0] * 4) is None
    assert rounds_to_converge([math.nan] * 9) is None


def test_miou_by_hand() -> None:
    """Labels 0 0 1 1 1 void, predictions 0 1 1 1 0 2 of 4 classes.

    Class 0: TP 1, FP 1, FN 1 → 1/3. Class 1: TP 2, FP 1, FN 1 → 1/2. Classes 2 and 3: absent.
    Mean 5/12 = 41.6667 %. One more pixel of class 0 taken for class 3: 1/4, 1/2 and 0, mean 1/4.
    Without the background: 1/2; with the pixel more (1/2 + 0)/2 = 1/4; only background: nothing to count.
    """
    labels = torch.tensor([[0, 0, 1], [1, 1, -1]])
    predicted = torch.tensor([[0, 1, 1], [1, 0, 2]])
    counts = confusion_matrix(predicted, labels, 4)
    assert counts[:2, :2].tolist() == [[1, 1], [1, 2]]
    assert int(counts.sum()) == 5
    assert miou(counts) == pytest.approx(100 * 5 / 12)
    more = counts + confusion_matrix(torch.tensor([3]), torch.tensor([0]), 4)
    assert miou(more) == pytest.approx(25)
    assert math.isnan(miou(torch.zeros(3, 3)))
    assert miou(counts, background=False) == pytest.approx(50)
    assert miou(more, background=False) == pytest.approx(25)
    assert math.isnan(miou(torch.tensor([[9, 0], [0, 0]]), background=False))


@given(st.integers(1, 6), st.integers(0, 80), st.integers(0, 10**6))
@few
def test_confusion_against_loops(classes: int, n: int, seed: int) -> None:
    gen = torch.Generator().manual_seed(seed)
    labels = torch.randint(-1, classes, (n,), generator=gen)
    predicted = torch.randint(0, classes, (n,), generator=gen)
    slow = torch.zeros(classes, classes, dtype=torch.long)
    for t, p in zip(labels.tolist(), predicted.tolist()):
        if t >= 0:
            slow[t, p] += 1
    assert torch.equal(confusion_matrix(predicted, labels, classes), slow)


def test_fairness_by_hand() -> None:
    """20, 40, 90: std √(2600/3), Gini 2·(20+70+50)/(2·9·50) = 0.311111; the worst tenth is one client."""
    got = fairness(torch.tensor([40.0, 20, 90]))
    assert got.std == pytest.approx(math.sqrt(2600 / 3))
    assert got.worst == got.worst10 == 20
    assert got.gini == pytest.approx(0.311111, abs=1e-6)


def test_worst_tenth_rounds_up() -> None:
    """11 clients: the worst two count."""
    assert fairness(torch.arange(10.0, 21.0)).worst10 == pytest.approx(10.5)
    assert fairness(torch.arange(10.0, 20.0)).worst10 == pytest.approx(10)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30))
@few
def test_gini_against_loops(values: list[float]) -> None:
    gini = fairness(torch.tensor(values, dtype=torch.float64)).gini
    total, k = sum(values), len(values)
    slow = sum(abs(a - b) for a in values for b in values) / (2 * k * total) if total else 0.0
    assert gini == pytest.approx(slow, abs=1e-9)
    assert -1e-9 <= gini < 1
