import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from protofed.core.answer import Replies, Reply
from protofed.core.record import Record, Tree
from protofed.ops.clusters import pooled, renew
from protofed.ops.contrast import (
    centres,
    class_shares,
    contrast,
    own_mean,
    same_class,
    top_counts,
    top_sum,
)


def f(values):
    return torch.tensor(values, dtype=torch.float64)


def test_same_class_and_void():
    own = same_class(torch.tensor([1, -1]), torch.tensor([0, 1, 1]))
    assert own.tolist() == [[False, True, True], [False, False, False]]


def test_contrast_by_hand():
    """e^score = 1, 2, 5; own are the first two: −log(3/8) = 0.980829. Alone in the world: 0."""
    scores, own = f([[1.0, 2.0, 5.0]]).log(), torch.tensor([[True, True, False]])
    assert contrast(scores, own).item() == pytest.approx(0.9808292530)
    assert contrast(scores[:, :2], own[:, :2]).item() == pytest.approx(0.0)


def test_contrast_without_own_prototypes_is_zero_with_zero_gradient():
    scores = f([[3.0, -700.0], [1e4, 2.0]]).requires_grad_()
    value = contrast(scores, torch.zeros(2, 2, dtype=torch.bool))
    assert value.tolist() == [0.0, 0.0]
    assert torch.autograd.grad(value.sum(), scores)[0].abs().max() == 0


def test_contrast_of_far_scores_does_not_overflow():
    """Own score 1000 below the other: the loss is 1000, the gradients −1 and 1; float32."""
    scores = torch.tensor([[-500.0, 500.0]], requires_grad=True)
    value = contrast(scores, torch.tensor([[True, False]]))
    assert value.item() == pytest.approx(1000.0)
    assert torch.autograd.grad(value.sum(), scores)[0].tolist() == [[-1.0, 1.0]]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 4), st.integers(1, 7))
def test_contrast_equals_the_formula(seed, b, j):
    g = torch.Generator().manual_seed(seed)
    scores = torch.randn(b, j, generator=g, dtype=torch.float64)
    own = torch.rand(b, j, generator=g) < 0.5
    for row, mask, value in zip(scores, own, contrast(scores, own)):
        wanted = -math.log(row[mask].exp().sum() / row.exp().sum()) if mask.any() else 0.0
        assert value.item() == pytest.approx(wanted, abs=1e-12)


def test_gradients_of_the_loss_terms():
    scores = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores.requires_grad_()
    own = torch.tensor([[1, 1, 0, 0, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]]).bool()
    k = torch.tensor([2, 0, 1])
    assert gradcheck(lambda s: contrast(s, own), scores)
    assert gradcheck(lambda s: top_sum(s, own, k), scores)
    assert gradcheck(lambda s: own_mean(s, own), scores)


def test_own_mean_by_hand():
    values = f([[1.0, 3.0, 9.0], [1.0, 3.0, 9.0]])
    own = torch.tensor([[True, True, False], [False, False, False]])
    assert own_mean(values, own).tolist() == [2.0, 0.0]


def test_top_sum_by_hand():
    """Own 4, −1, 2, foreign 9. The two largest own: 6; all three, or more: 5; of none: 0."""
    values = f([[4.0, 9.0, -1.0, 2.0]]).repeat(4, 1)
    own = torch.tensor([[True, False, True, True]]).repeat(4, 1)
    own[3] = False
    assert top_sum(values, own, torch.tensor([2, 3, 4, 2])).tolist() == [6.0, 5.0, 5.0, 0.0]


def test_top_counts_by_hand():
    """Classes with 3, 0, 1, 4 prototypes: ⌈φn⌉ = 2, 0, 1, 2 at φ = 0.5; all at φ = 1; one at a tiny φ."""
    cls = torch.tensor([0, 3, 3, 0, 2, 3, 0, 3])
    assert top_counts(cls, 4, 0.5).tolist() == [2, 0, 1, 2]
    assert top_counts(cls, 4, 1.0).tolist() == [3, 0, 1, 4]
    assert top_counts(cls, 4, 1e-12).tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize("phi", ["0.1", "0.07", "0.3", "0.55", "0.9", "1.0"])
def test_top_counts_are_exact_for_decimal_shares(phi):
    """0.1·30 and 0.07·100 exceed 3 and 7 by a rounding error; their ceilings must not be 4 and 8."""
    cls = torch.repeat_interleave(torch.arange(201), torch.arange(201))
    wanted = [math.ceil(Fraction(phi) * n) for n in range(201)]
    assert top_counts(cls, 201, float(phi)).tolist() == wanted
    assert top_counts(cls[:0], 2, float(phi)).tolist() == [0, 0]


def test_centres_by_hand():
    mean, known = centres(f([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), torch.tensor([0, 0, 2]), 3)
    assert torch.allclose(mean, f([[0.8, 0.4], [0.0, 0.0], [0.0, 1.0]]))
    assert known.tolist() == [True, False, True]
    empty, unknown = centres(f([]).reshape(0, 2), torch.tensor([], dtype=torch.int64), 3)
    assert empty.shape == (3, 2)
    assert not unknown.any()


def test_class_shares_by_hand():
    shares = class_shares(f([3.0, 5.0, 1.0]), torch.tensor([1, 0, 1]), 4)
    assert shares.tolist() == [0.75, 1.0, 0.25]
    assert len(class_shares(f([]), torch.tensor([], dtype=torch.int64), 4)) == 0


class Up(Record):
    weights: Tree
    mean: torch.Tensor


def test_pooled_averages_and_sorts_by_client():
    """Clients 5 (3 samples, w = 1) and 2 (1 sample, w = 5): (3·1 + 1·5)/4 = 2, plain 3; rows of 2 first."""
    ups = {5: Up({"w": f([1.0])}, f([[50.0]])), 2: Up({"w": f([5.0])}, f([[20.0], [21.0]]))}
    for weighting, wanted in (("samples", 2.0), ("uniform", 3.0)):
        arriving = Replies(iter([Reply(5, 3, ups[5]), Reply(2, 1, ups[2])]))
        weights, clients, (rows,) = pooled(arriving, weighting, "mean")
        assert weights["w"].item() == wanted
        assert clients == [2, 5]
        assert rows[:, 0].tolist() == [20.0, 21.0, 50.0]


def test_renew_keeps_or_drops_absent_classes():
    old = (torch.tensor([0, 1, 1]), f([1.0, 2.0, 3.0]))
    new = (torch.tensor([2, 0]), f([7.0, 8.0]))
    assert [c.tolist() for c in renew("keep", old, new)] == [[2, 0, 1, 1], [7.0, 8.0, 2.0, 3.0]]
    assert [c.tolist() for c in renew("drop", old, new)] == [[2, 0], [7.0, 8.0]]


def test_terms_run_under_vmap():
    g = torch.Generator().manual_seed(1)
    values = torch.randn(2, 4, 5, generator=g, dtype=torch.float64)
    own = torch.rand(2, 4, 5, generator=g) < 0.4
    k = torch.randint(0, 3, (2, 4), generator=g)
    both = torch.func.vmap(lambda v, o, n: contrast(v, o) + own_mean(v, o) + top_sum(v, o, n))(values, own, k)
    for i in range(2):
        one = contrast(values[i], own[i]) + own_mean(values[i], own[i]) + top_sum(values[i], own[i], k[i])
        assert torch.allclose(both[i], one, atol=1e-12)
