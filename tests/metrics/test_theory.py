"""FedProto's bounds: the check values of the specification and what the bounds promise."""

from __future__ import annotations

import doctest
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from protofed.metrics import theory
from protofed.metrics.theory import (
    eta_bound_corollary1,
    gradient_moments,
    lambda_bound_corollary1,
    lipschitz,
    one_round_change,
    theorem2,
)

few = settings(max_examples=25, deadline=None)
CONSTANTS = {"L1": 2.0, "L2": 3.0, "G": 4.0, "sigma2": 1.0, "E": 10}
positive = st.floats(0.01, 10)


def test_examples_in_the_docstrings() -> None:
    assert doctest.testmod(theory).failed == 0


def test_theorem2_check_value() -> None:
    """λ < 1/12; η < 2(1−0.12)/(2·2) = 0.44; T = 4.6/(10(0.2−0.02) − (0.2+0.24)) = 4.6/1.36."""
    found = theorem2(eps=1, lam=0.01, delta=2.3, eta=0.1, **CONSTANTS)  # type: ignore[arg-type]
    assert found.lam_bound == pytest.approx(0.083333, abs=1e-6)
    assert found.eta_bound == pytest.approx(0.44)
    assert found.rounds == pytest.approx(3.382353, abs=1e-6)


def test_theorem2_without_an_admissible_eta() -> None:
    """λ = 0.1 exceeds 1/12, so 1 − 0.1·12 < 0: no η will do. At λ = 0.01, η = 0.44 is just too large."""
    found = theorem2(eps=1, lam=0.1, delta=2.3, eta=0.1, **CONSTANTS)  # type: ignore[arg-type]
    assert found.eta_bound is None
    assert found.rounds is None
    assert found.lam_bound == pytest.approx(1 / 12)
    at_bound = theorem2(eps=1, lam=0.01, delta=2.3, eta=0.44, **CONSTANTS)  # type: ignore[arg-type]
    assert at_bound.eta_bound == pytest.approx(0.44)
    assert at_bound.rounds is None


@given(positive, st.floats(0, 0.9), st.floats(0.05, 0.95), positive, positive, positive, positive)
@few
def test_theorem2_rounds_are_enough(
    eps: float, lam_part: float, eta_part: float, L1: float, L2: float, G: float, sigma2: float
) -> None:
    """With T of Eq. 18 the bound of Eq. 49 on the mean squared gradient equals ε."""
    E, delta = 7, 2.0
    lam = lam_part * eps / (L2 * G)
    eta_bound = theorem2(eps, lam, L1, L2, G, sigma2, E, delta, eta=math.inf).eta_bound
    assert eta_bound is not None
    eta = eta_part * eta_bound
    rounds = theorem2(eps, lam, L1, L2, G, sigma2, E, delta, eta).rounds
    assert rounds is not None
    top = 2 * delta / (rounds * E) + L1 * eta**2 * sigma2 + 2 * lam * L2 * eta * G
    assert top / (2 * eta - L1 * eta**2) == pytest.approx(eps, rel=1e-6)


def test_corollary1_by_hand() -> None:
    """S = 10: 2(10 − 0.01·3·10·4)/(2(10 + 10)) = 0.44. S = 1: 1 − 1.2 < 0, no admissible η."""
    constants: dict[str, float] = {"lam": 0.01, **CONSTANTS}
    assert eta_bound_corollary1(10, **constants) == pytest.approx(0.44)  # type: ignore[arg-type]
    assert eta_bound_corollary1(1, **constants) is None  # type: ignore[arg-type]
    assert lambda_bound_corollary1(6, L2=3, G=4, E=10) == pytest.approx(0.05)
    assert lambda_bound_corollary1(0, L2=3, G=4, E=10) is None


@given(positive, st.floats(0, 0.9), positive, positive, positive, positive)
@few
def test_loss_falls_below_the_bound_and_may_rise_above(
    grads: float, lam_part: float, L1: float, L2: float, G: float, sigma2: float
) -> None:
    E = 5
    lam_bound = lambda_bound_corollary1(grads, L2, G, E)
    assert lam_bound is not None
    lam = lam_part * lam_bound
    bound = eta_bound_corollary1(grads, lam, L1, L2, G, sigma2, E)
    assert bound is not None
    assert one_round_change(grads, 0.99 * bound, lam, L1, L2, G, sigma2, E) < 0
    assert one_round_change(grads, 1.01 * bound, lam, L1, L2, G, sigma2, E) > 0


def test_zero_constants_bound_nothing() -> None:
    """An embedding that never moved has L2 = 0: any λ will do."""
    assert lambda_bound_corollary1(1, L2=0, G=4, E=10) == math.inf
    assert eta_bound_corollary1(1, 0.1, L1=0, L2=0, G=1, sigma2=1, E=2) == math.inf


def test_lipschitz_by_hand() -> None:
    """Moves of norm 5, 2 and 0; changes of norm 10, 6 and 1: ratios 2 and 3, the third is skipped.

    Of several probe samples the worst counts: 20/5 = 4.
    """
    moved = torch.tensor([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]])
    changed = torch.tensor([[10.0, 0.0], [0.0, 6.0], [1.0, 0.0]])
    assert lipschitz(moved, changed) == pytest.approx(3)
    probes = torch.stack([changed, changed * torch.tensor([[2.0], [0.1], [1.0]])], 1)
    assert lipschitz(moved, probes) == pytest.approx(4)
    assert lipschitz(torch.zeros(2, 3), torch.ones(2, 4)) == 0


def test_lipschitz_of_a_linear_gradient() -> None:
    """∇L = A·ω with eigenvalues 1 and 5: the ratio never exceeds 5, and reaches it along that axis."""
    gen = torch.Generator().manual_seed(0)
    moved = torch.randn(100, 2, generator=gen)
    scale = torch.tensor([1.0, 5.0])
    assert 4 < lipschitz(moved, moved * scale) <= 5.0001
    assert lipschitz(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 5.0]])) == pytest.approx(5)


def test_gradient_moments_by_hand() -> None:
    """Batches (3,4) and (0,0), mean (1.5,2): σ² = 2.5² = 6.25, norms 5 and 0, so G = 2.5.

    At the second iterate both are (0,6): σ² = 0, G = 6. Maxima: 6.25 and 6.
    """
    batches = torch.tensor([[[3.0, 4.0], [0.0, 0.0]], [[0.0, 6.0], [0.0, 6.0]]])
    assert gradient_moments(batches, batches.mean(1)) == pytest.approx((6.25, 6))
