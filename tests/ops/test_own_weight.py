"""Weights and temperatures that a client's unseen samples favour, by numbers worked out in the docstrings."""

import pytest
import torch

from protofed.ops.moments import Moments, gaussian_head, log_prior, moments_of
from protofed.ops.own_weight import WEIGHTS, folds_of, own_head, unseen_scores


def floats(values):
    return torch.tensor(values, dtype=torch.float64)


def test_folds_deal_each_class_in_turn():
    """Class 0 at places 0, 1, 3, 4 and class 1 at 2, 5: in two folds 0 1 · 0 1 · and · · 0 · · 1."""
    y = torch.tensor([0, 0, 1, 0, 0, 1])
    assert folds_of(y, 3, 2).tolist() == [0, 1, 0, 0, 1, 1]


def test_sums_counted_several_times():
    m = Moments(floats([[2.0]]), floats([[1.0], [3.0]]), floats([1.0, 2.0]))
    assert [t.tolist() for t in m.times(4)] == [[[8]], [[4], [12]], [4, 8]]


def test_unseen_scores_by_hand():
    """One feature. Others: 0, 2 of class 0 and 4, 6 of class 1. Own: 3, 3 of class 0, in folds 0 and 1, so
    each is scored with the other one, counted w = 2 times: class 0 holds 0, 2, 3, 3, μ = 2, scatter 6; class
    1 μ = 5, scatter 2. S = 8 / (6 − 2) = 2, which one feature does not shrink. At 3 the scores are
    3·2/2 − ½·4/2 = 2 and 3·5/2 − ½·25/2 = 1.25."""
    others = moments_of([(floats([[0], [2], [4], [6]]), torch.tensor([0, 0, 1, 1]))], 2)
    features, y = floats([[3], [3]]), torch.tensor([0, 0])
    own = moments_of([(features, y)], 2)
    scores = unseen_scores(features, y, others, own, 2.0)
    torch.testing.assert_close(scores, floats([[2.0, 1.25], [2.0, 1.25]]))


def two_kinds(swapped):
    """Others tell two classes by the sign of a feature; this client as they do, or the other way round."""
    gen = torch.Generator().manual_seed(0)
    y = torch.arange(400) % 2
    signs = (2.0 * y - 1)[:, None]
    x = torch.cat([signs, torch.zeros(400, 3)], 1).double()
    x = x + 0.7 * torch.randn(400, 4, generator=gen, dtype=torch.float64)
    others = moments_of([(x, y)], 2)
    mine = x[:40].clone()
    if swapped:
        mine[:, 0] = -mine[:, 0]
    own = moments_of([(mine, y[:40])], 2)
    return mine, y[:40], others, own


def test_a_client_that_differs_counts_more():
    """Of 400 samples against 40 the common classifier has every sample of this client wrong; counted 16 times
    its own are the majority."""
    features, y, others, own = two_kinds(True)
    tried = own_head(features, y, others, own, floats([0.5, 0.5]).log())
    common = next(one for one in tried if one.weight == 1)
    right = [float((one.head.scores(features).argmax(1) == y).double().mean()) for one in (tried[0], common)]
    assert tried[0].weight == 16
    assert right[0] > 0.7 > 0.3 > right[1]
    assert common.temperature > 100 > tried[0].temperature  # the common classifier is silenced


def test_the_head_is_the_one_of_the_weighted_samples():
    features, y, others, own = two_kinds(True)
    best = own_head(features, y, others, own, log_prior(own.n))[0]
    again = gaussian_head(others.plus(own.times(best.weight)))
    torch.testing.assert_close(best.head.weight, again.weight)


def test_sole_samples_are_scored_by_the_others_alone():
    """One sample of each class: none has a second, so both are scored without anything of the client's, and
    every weight costs the same: the smallest is taken."""
    features, y, others, _ = two_kinds(False)
    own = moments_of([(features[:2], y[:2])], 2)
    tried = own_head(features[:2], y[:2], others, own, log_prior(own.n))
    assert [one.weight for one in tried] == list(WEIGHTS)
    assert len({one.temperature for one in tried}) == 1
    torch.testing.assert_close(
        unseen_scores(features[:2], y[:2], others, own, 16.0), gaussian_head(others).scores(features[:2])
    )


def test_a_class_of_one_sample_does_not_choose():
    """A sole sample of a third class, far away, is not scored: weight and temperature hardly change (its
    fold is without it). Scored, it would cost so much that T rose."""
    features, y, others, _ = two_kinds(False)
    wide = Moments(
        others.gram, torch.cat([others.sums, others.sums[:1] * 0]), torch.cat([others.n, floats([0.0])])
    )
    more, labels = torch.cat([features, floats([[9, 9, 9, 9]])]), torch.cat([y, torch.tensor([2])])
    own = moments_of([(more, labels)], 3)
    prior = floats([0.45, 0.45, 0.1]).log()
    with_it = own_head(more, labels, wide, own, prior)[0]
    without = own_head(features, y, wide, own, prior)[0]
    assert with_it.weight == without.weight
    assert with_it.temperature == pytest.approx(without.temperature, rel=0.01)
