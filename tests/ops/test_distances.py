"""Distances: values by hand, gradients at the points where naive formulas break, and vmap."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import grad, vmap

from protofed.ops.distances import DISTANCES, cosine, pairwise_l2, power_similarity

few = settings(max_examples=25, deadline=None)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
Pairwise = Callable[[Tensor, Tensor], Tensor]

PAIRWISE: dict[str, Pairwise] = {
    "pairwise_l2": pairwise_l2,
    "pairwise_l2 exact": functools.partial(pairwise_l2, exact=True),
    "cosine": cosine,
    "power": functools.partial(power_similarity, alpha=0.25),
    "signed power": functools.partial(power_similarity, alpha=0.25, signed=True),
}
pairwise_functions = pytest.mark.parametrize("name", PAIRWISE)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def gradients(function: Pairwise, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
    return torch.autograd.grad(function(a, b).sum(), (a, b))


@dtypes
@pytest.mark.parametrize(("name", "value"), [("l2", 5), ("l2sq", 25), ("mse", 12.5), ("l1", 7)])
def test_row_distances_by_hand(name: str, value: float, dtype: torch.dtype) -> None:
    """(1,2) and (4,6) differ by (3,4): norm 5, square 25, over two dimensions 12.5, sum 7."""
    a = torch.tensor([[1, 2], [0, 0]], dtype=dtype)
    b = torch.tensor([[4, 6], [0, 0]], dtype=dtype)
    got = DISTANCES[name](a, b)
    assert got.dtype == dtype
    torch.testing.assert_close(got, torch.tensor([value, 0], dtype=dtype), atol=2e-6, rtol=1e-6)


def test_emd_by_hand() -> None:
    """(1,3) is the histogram (1/4,3/4) and (1,-5) is (1,0): 3/4 moves one step; divided by D=2: 0.375.

    One step further costs more: from (1,0,0,0) to (0,1,0,0) 1/4, to (0,0,0,1) 3/4. Scale is ignored.
    """
    emd = DISTANCES["emd"]
    assert float(emd(torch.tensor([1.0, 3]), torch.tensor([1.0, -5]))) == pytest.approx(0.375, abs=1e-6)
    one = torch.eye(4)
    got = emd(7 * one[:1], one)
    torch.testing.assert_close(got, torch.tensor([0, 0.25, 0.5, 0.75]), atol=1e-6, rtol=0)


def test_distances_of_the_earlier_fedproto_by_hand() -> None:
    """ReLU leaves (3,0) and (0,4): 5. Softmax of (0, ln 3) is (1/4, 3/4), of (0,0) it is (1/2, 1/2):
    ½ ln(½ / ¼) + ½ ln(½ / ¾) = ½ ln(4/3) = 0.143841; the other way ¼ ln ½ + ¾ ln 3/2 = 0.130812."""
    relu_l2, ce = DISTANCES["relu_l2"], DISTANCES["ce"]
    a, b = torch.tensor([3.0, -7]), torch.tensor([-1.0, 4])
    assert float(relu_l2(a, b)) == pytest.approx(5)
    one, two = torch.tensor([0.0, math.log(3)]), torch.zeros(2)
    assert float(ce(one, two)) == pytest.approx(0.143841, abs=1e-6)
    assert float(ce(two, one)) == pytest.approx(0.130812, abs=1e-6)
    assert float(ce(one + 5, one)) == pytest.approx(0, abs=1e-6)  # a common shift changes nothing


@dtypes
@pytest.mark.parametrize("name", DISTANCES)
def test_row_gradients_are_finite_at_equal_and_zero_rows(name: str, dtype: torch.dtype) -> None:
    """Rows that are equal are a minimum of every distance, so the slope there must be 0, not NaN."""
    a = torch.tensor([[1, 2, 3], [0, 0, 0], [-1, -1, -2]], dtype=dtype)
    rounding = 1e-6 if name == "ce" else 0  # probabilities that are subtracted
    for g in gradients(DISTANCES[name], a, a):
        assert g.abs().max() <= rounding
    far = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 2, 0]], dtype=dtype)
    assert all(g.isfinite().all() for g in gradients(DISTANCES[name], a, far))


@pytest.mark.parametrize("name", DISTANCES)
def test_row_gradients_against_differences(name: str) -> None:
    a, b = normal(3, 4).abs().requires_grad_(), normal(3, 4, seed=1).abs().requires_grad_()
    assert torch.autograd.gradcheck(DISTANCES[name], (a, b))


@pairwise_functions
def test_pairwise_gradients_against_differences(name: str) -> None:
    a, b = normal(3, 4).requires_grad_(), normal(2, 4, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(PAIRWISE[name], (a, b))


@dtypes
@pairwise_functions
def test_pairwise_gradients_at_the_hazards(name: str, dtype: torch.dtype) -> None:
    """Zero rows, rows shorter than 1e-8, equal, opposite, orthogonal: values and slopes are finite."""
    rows = [[0, 0, 0], [1e-12, 0, 0], [1, 2, 2], [-1, -2, -2], [2, -1, 0], [1, 2, 2.0000001], [30, 60, 60]]
    a = torch.tensor(rows, dtype=dtype)
    assert PAIRWISE[name](a, a).isfinite().all()
    for g in gradients(PAIRWISE[name], a, a):
        assert g.isfinite().all()
        assert float(g.abs().max()) < 1e6


@dtypes
def test_cosine_by_hand(dtype: torch.dtype) -> None:
    """(3,4) with (1,0), (0,2), (-3,-4) and zero: 0.6, 0.8, −1, 0; a zero row: 0 throughout."""
    a = torch.tensor([[3, 4], [0, 0]], dtype=dtype)
    b = torch.tensor([[1, 0], [0, 2], [-3, -4], [0, 0]], dtype=dtype)
    expected = torch.tensor([[0.6, 0.8, -1, 0], [0, 0, 0, 0]], dtype=dtype)
    torch.testing.assert_close(cosine(a, b), expected)


def test_cosine_of_a_short_row() -> None:
    """Norm 1e-10 is divided by 1e-8, so the similarity to its own direction is 0.01, with slope 0."""
    a, b = torch.tensor([[1e-10, 0.0]]), torch.tensor([[5.0, 0.0]])
    assert float(cosine(a, b)) == pytest.approx(0.01)
    assert gradients(cosine, a, b)[0].tolist() == [[0, 0]]


def test_power_by_hand() -> None:
    """cos = 0.64, 0, −0.25 at α = 1/2: 0.8, √1e-6 = 0.001 twice; signed 0.8, 0, −0.5."""
    a = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    angle = torch.tensor([0.64, 0.0, -0.25], dtype=torch.float64).acos()
    b = torch.stack([angle.cos(), angle.sin()], 1)
    torch.testing.assert_close(power_similarity(a, b, 0.5), torch.tensor([[0.8, 0.001, 0.001]]).double())
    signed = power_similarity(a, b, 0.5, signed=True)
    torch.testing.assert_close(signed, torch.tensor([[0.8, 0.0, -0.5]]).double(), atol=1e-12, rtol=1e-7)


@dtypes
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("alpha", [0.25, 0.5, 1.0, 2.0])
def test_power_of_negative_and_zero_cosines(alpha: float, signed: bool, dtype: torch.dtype) -> None:
    """A plain power gives NaN at −1 and an infinite slope at 0.

    Unsigned, nothing pulls below the clamp. Signed, the slope at 0 is (1e-6)^(α−1) along the prototype.
    """
    b = torch.tensor([[1, 0]], dtype=dtype)
    function = functools.partial(power_similarity, alpha=alpha, signed=signed)
    for row in ([-1, 0], [-1, 1], [0, 1], [0, 0]):
        a = torch.tensor([row], dtype=dtype)
        assert function(a, b).isfinite().all()
        slope = gradients(function, a, b)[0]
        assert slope.isfinite().all()
        if not signed:
            assert torch.equal(slope, torch.zeros_like(a))
    if signed:
        slope = gradients(function, torch.tensor([[0, 1]], dtype=dtype), b)[0]
        assert float(slope[0, 0]) == pytest.approx(1e-6 ** (alpha - 1), rel=1e-4)


@given(st.floats(0.05, 3), st.integers(0, 10**6))
@few
def test_powers_are_odd_and_agree_where_positive(alpha: float, seed: int) -> None:
    a, b = normal(5, 3, seed=seed), normal(4, 3, seed=seed + 1)
    plain, signed = power_similarity(a, b, alpha), power_similarity(a, b, alpha, signed=True)
    positive = cosine(a, b) > 1e-6
    torch.testing.assert_close(plain[positive], signed[positive])
    torch.testing.assert_close(power_similarity(-a, b, alpha, signed=True), -signed)
    assert float(plain.max()) <= 1
    assert float(plain.min()) >= (1e-6**alpha) * (1 - 1e-9)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 30), st.integers(0, 10**6))
@few
def test_pairwise_l2_against_loops(n: int, j: int, d: int, seed: int) -> None:
    a, b = normal(n, d, seed=seed), normal(j, d, seed=seed + 1)
    slow = torch.tensor([[math.dist(p, q) for q in b.tolist()] for p in a.tolist()], dtype=torch.float64)
    torch.testing.assert_close(pairwise_l2(a, b), slow, atol=1e-6, rtol=1e-9)
    torch.testing.assert_close(pairwise_l2(a, b, exact=True), slow, atol=1e-6, rtol=1e-12)


def test_pairwise_l2_accuracy() -> None:
    """Rows of norm about 100 and 0.01 apart, float32: only `exact` sees the distance; neither is NaN.

    The matrix form errs by about 1e-7·2·100² = 2e-3 in the square, more than the true 1e-4.
    """
    a = normal(50, 64, dtype=torch.float32)
    a = 100 * a / a.norm(dim=1, keepdim=True)
    b = a.clone()
    b[:, 0] += 0.01
    assert (pairwise_l2(a, b, exact=True).diagonal() - 0.01).abs().max() < 1e-5
    fast = pairwise_l2(a, b).diagonal()
    assert fast.isfinite().all()
    assert 0.001 < float((fast - 0.01).abs().max()) < 0.2
    assert (pairwise_l2(a, a).diagonal() >= 1e-6).all()


def test_zero_prototypes_give_no_columns() -> None:
    for function in PAIRWISE.values():
        assert function(normal(3, 4), normal(0, 4)).shape == (3, 0)


@dtypes
@pytest.mark.parametrize("name", DISTANCES)
def test_row_distances_under_vmap(name: str, dtype: torch.dtype) -> None:
    a, b = normal(6, 3, 4, dtype=dtype), normal(6, 3, 4, seed=1, dtype=dtype)
    a[0] = b[0]
    check_vmap(DISTANCES[name], a, b)


@dtypes
@pairwise_functions
def test_pairwise_under_vmap(name: str, dtype: torch.dtype) -> None:
    a, b = normal(6, 3, 4, dtype=dtype), normal(6, 2, 4, seed=1, dtype=dtype)
    a[0, 0] = 0
    b[1, 1] = a[1, 1]
    check_vmap(PAIRWISE[name], a, b)
    shared = vmap(PAIRWISE[name], in_dims=(0, None))(a, b[0])
    torch.testing.assert_close(shared, torch.stack([PAIRWISE[name](row, b[0]) for row in a]))


def check_vmap(function: Pairwise, a: Tensor, b: Tensor) -> None:
    """Values and gradients under vmap, with both orders of grad and vmap, equal those of a loop."""
    tolerance = {"atol": 2e-3, "rtol": 1e-3} if a.dtype == torch.float32 else {"atol": 1e-6, "rtol": 1e-6}
    looped = torch.stack([function(x, y) for x, y in zip(a, b)])
    torch.testing.assert_close(vmap(function)(a, b), looped, **tolerance)
    slopes = torch.stack([gradients(function, x, y)[0] for x, y in zip(a, b)])
    inside = vmap(grad(lambda x, y: function(x, y).sum()))(a, b)
    outside = grad(lambda x: vmap(function)(x, b).sum())(a)
    torch.testing.assert_close(inside, slopes, **tolerance)
    torch.testing.assert_close(outside, slopes, **tolerance)
