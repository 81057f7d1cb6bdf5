"""Sums and the classifiers that follow from them, by numbers worked out in the docstrings."""

import math

import pytest
import torch
from sklearn.covariance import OAS
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from protofed.ops.moments import (
    LinearHead,
    Moments,
    gaussian_head,
    log_prior,
    moments_of,
    oas,
    scatter,
    square_of,
    temper,
    triangle,
    whitened,
)


def floats(values):
    return torch.tensor(values, dtype=torch.float64)


FEATURES = floats([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0], [0.0, 4.0]])
LABELS = torch.tensor([0, 0, 2, 2])


def random_moments(seed=0, samples=200, size=12, classes=4):
    gen = torch.Generator().manual_seed(seed)
    y = torch.arange(samples) % classes
    features = torch.randn(samples, size, generator=gen, dtype=torch.float64) + 0.7 * y[:, None]
    return features, y, moments_of([(features, y)], classes)


def test_sums_by_hand():
    """Σφφᵀ = diag(1 + 9, 4 + 16); Σφ of class 0 is (4, 0), of class 2 (0, 6); class 1 has no samples. The
    class means are (2, 0) and (0, 3), from which every sample lies 1 away: scatter diag(2, 2)."""
    for pieces in ([(FEATURES, LABELS)], [(FEATURES[:1], LABELS[:1]), (FEATURES[1:], LABELS[1:])]):
        m = moments_of(pieces, 3)
        assert m.gram.tolist() == [[10, 0], [0, 20]]
        assert m.sums.tolist() == [[4, 0], [0, 0], [0, 6]]
        assert m.n.tolist() == [2, 0, 2]
        assert scatter(m).tolist() == [[2, 0], [0, 2]]


def test_a_triangle_is_the_symmetric_matrix():
    square = floats([[1, 2, 3], [2, 4, 5], [3, 5, 6]])
    assert triangle(square).tolist() == [1, 2, 3, 4, 5, 6]
    assert torch.equal(square_of(triangle(square)), square)


def test_shrinkage_by_hand():
    """S = diag(1, 3, 5), M = 3, f = 9: tr S² = 35, tr²S = 81.
    Above: (1 − 2/3)·35 + 81 = 92⅔. Below: (9 + 1 − 2/3)(35 − 27) = 74⅔. More than 1, so ρ = 1.
    f = 99: below (99 + ⅓)·8 = 794⅔, ρ = 92⅔ / 794⅔ = 278/2384."""
    cov = torch.diag(floats([1, 3, 5]))
    assert oas(cov, 9) == 1.0
    assert oas(cov, 99) == pytest.approx(278 / 2384, rel=1e-12)
    assert oas(torch.eye(3, dtype=torch.float64), 99) == 1.0  # nothing to shrink towards but itself


def test_shrinkage_is_near_that_of_scikit_learn_with_many_features():
    """Which leaves 2/M out of both brackets: at M = 200 a difference below 1 %."""
    gen = torch.Generator().manual_seed(1)
    samples = torch.randn(400, 200, generator=gen, dtype=torch.float64) * torch.linspace(0.5, 3, 200)
    cov = samples.T @ samples / 400
    theirs = OAS(assume_centered=True).fit(samples.numpy()).shrinkage_
    assert oas(cov, 400) == pytest.approx(theirs, rel=0.01)


def test_discriminant_by_hand():
    """The four samples above: S = scatter / (4 − 2) = I, so Σ = I whatever ρ. w_0 = (2, 0), b_0 = −½·4 = −2;
    w_2 = (0, 3), b_2 = −4.5. φ = (1, 1): class 0 scores 0, class 2 −1.5; class 1, which nobody has, −10⁴."""
    head = gaussian_head(moments_of([(FEATURES, LABELS)], 3))
    assert head.known.tolist() == [True, False, True]
    assert head.scores(floats([[1.0, 1.0]]))[0].tolist() == pytest.approx([0.0, -1e4, -1.5])


def test_discriminant_is_that_of_scikit_learn_for_the_same_shrinkage():
    """With Σ from `whitened` differences of scores are the log-odds of LDA with equal priors."""
    features, y, m = random_moments()
    freedom = len(y) - 4
    rho = oas(scatter(m) / freedom, freedom)
    theirs = LinearDiscriminantAnalysis(
        solver="lsqr", shrinkage=rho, priors=[0.25] * 4, covariance_estimator=None
    ).fit(features.numpy(), y.numpy())
    ours = gaussian_head(m).scores(features).numpy()
    assert (ours.argmax(1) == theirs.predict(features.numpy())).mean() > 0.98


def test_one_sample_a_class_leaves_the_mean_square():
    """Two samples (1, 0) and (0, 3) of two classes do not spread: Σ = (1 + 9) / 2 samples / 2 features."""
    m = moments_of([(floats([[1.0, 0.0], [0.0, 3.0]]), torch.tensor([0, 1]))], 2)
    torch.testing.assert_close(
        whitened(m, torch.eye(2, dtype=torch.float64)), torch.eye(2, dtype=torch.float64) / 2.5
    )


def test_prior_by_hand():
    """n = (3, 0, 1): (4, 1, 2) / 7."""
    assert log_prior(floats([3, 0, 1])).exp().tolist() == pytest.approx([4 / 7, 1 / 7, 2 / 7])


def test_temperature_by_hand():
    """Two classes, equal priors, ten samples of one margin: each counts 11/12 for its class. All right: the
    sigmoid of margin/T must be 11/12, T = margin / log 11. One wrong: (9·11/12 + 1/12)/10 = 5/6, T = margin /
    log 5. A margin of 1 would ask for T < 1, and 1 is taken."""
    prior, known = floats([0.5, 0.5]).log(), torch.tensor([True, True])
    for margin, wrong, wanted in ((20.0, 0, 20 / math.log(11)), (20.0, 1, 20 / math.log(5)), (1.0, 1, 1.0)):
        scores, y = floats([[margin, 0.0]] * 10), torch.tensor([0] * (10 - wrong) + [1] * wrong)
        assert temper(scores, y, prior, known)[0] == pytest.approx(wanted, rel=0.01)


def test_temperature_leaves_out_samples_of_classes_that_others_lack():
    scores, prior = floats([[20.0, 0.0, -1e4]] * 10), floats([1 / 3] * 3).log()
    known = torch.tensor([True, True, False])
    with_third = temper(scores, torch.tensor([0] * 8 + [1, 2]), prior, known)
    assert with_third == pytest.approx(temper(scores[:9], torch.tensor([0] * 8 + [1]), prior, known))
    assert temper(scores, torch.full((10,), 2), prior, known) == (1.0, math.inf)


@pytest.mark.parametrize("cuts", [(50, 120), (1, 2), (199, 200)])
def test_any_division_gives_the_pooled_classifier(cuts):
    features, y, whole = random_moments()
    parts = [
        moments_of([pair], 4)
        for pair in zip(features.tensor_split(cuts), y.tensor_split(cuts))
        if len(pair[1])
    ]
    total = parts[-1]
    for part in parts[:-1]:
        total = total.plus(part)
    for one, two in zip(gaussian_head(total), gaussian_head(whole)):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)
    less = total.plus(parts[0], -1)
    rest = Moments(*(sum(values) for values in zip(*parts[1:])))
    torch.testing.assert_close(gaussian_head(less).weight, gaussian_head(rest).weight, rtol=1e-8, atol=1e-8)


def test_unknown_classes_never_win():
    head = LinearHead(floats([[5.0], [0.0]]), floats([0.0, 0.0]), torch.tensor([False, True]))
    assert head.scores(floats([[9.0]])).argmax(1).tolist() == [1]
