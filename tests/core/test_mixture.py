"""`ens`, with numbers worked out by hand."""

import math

import torch

from protofed.core.data import LocalData
from protofed.core.mixture import Mixture, fit_mixture, log_prior, scored_held


def test_scores_of_the_mixture() -> None:
    """π = (3+1)/(3+2), (0+1)/(3+2) = .8, .2. Classifier: log softmax(0, ln 3) = log ¼, log ¾. Prototypes:
    softmax(0 + ln .8, 0 + ln .2) = .8, .2. With α = ½ the scores are ½ ln(¼ · .8), ½ ln(¾ · .2): class 0 wins
    although the classifier says 1."""
    prior = log_prior(LocalData(torch.zeros(3, 1), torch.zeros(3, dtype=torch.long)), 2)
    scores = {"clf": torch.tensor([[0.0, math.log(3)]]), "gp_all": torch.zeros(1, 2)}
    mixed = Mixture(0.5, prior).add(scores)["ens"]
    expected = torch.tensor([[0.5 * math.log(0.25 * 0.8), 0.5 * math.log(0.75 * 0.2)]], dtype=torch.float64)
    assert torch.allclose(mixed, expected)
    assert mixed.argmax() == 0


def _fit(clf_right: bool, protos_right: bool) -> float:
    y = torch.tensor([0, 1] * 4)
    right, wrong = (
        4 * torch.nn.functional.one_hot(y, 2).float(),
        4 * torch.nn.functional.one_hot(1 - y, 2).float(),
    )
    scores = {"clf": right if clf_right else wrong, "gp_all": right if protos_right else wrong}
    data = LocalData(torch.zeros(8, 1), y)
    found = fit_mixture(lambda x: scores, data, data, 2)
    assert found is not None
    return found.share


def test_held_out_samples_choose() -> None:
    assert _fit(clf_right=True, protos_right=False) == 1.0
    assert _fit(clf_right=False, protos_right=True) == 0.0


def test_without_samples_the_classifier_decides() -> None:
    empty = LocalData(torch.zeros(0, 1), torch.zeros(0, dtype=torch.long))
    found = fit_mixture(
        lambda x: {}, LocalData(torch.zeros(1, 1), torch.zeros(1, dtype=torch.long)), empty, 2
    )
    assert found is not None
    assert found.share == 1.0


def test_a_class_without_prototype_keeps_the_scores_finite() -> None:
    scores = {"clf": torch.zeros(1, 2), "gp_all": torch.tensor([[0.0, float("-inf")]])}
    assert Mixture(1.0, torch.zeros(2)).add(scores)["ens"].isfinite().all()


def test_a_half_is_mixed_as_the_other_half_says() -> None:
    """Samples 0, 2 | 1, 3. Prototypes are right on samples 0 and 2 alone, the classifier on 1 and 3 alone.
    The odd samples choose α = 1, which is wrong on the even ones; the even ones choose 0, wrong on the odd
    ones. An α fitted on all four would have been right on two."""
    y = torch.tensor([0, 1, 1, 0])
    signs = torch.nn.functional.one_hot(y, 2).float() * 8
    wrong = torch.nn.functional.one_hot(1 - y, 2).float() * 8
    even = torch.tensor([True, False, True, False])[:, None]
    clf, protos = torch.where(even, wrong, signs), torch.where(even, signs, wrong)

    def predict(x: torch.Tensor) -> dict[str, torch.Tensor]:
        rows = x[:, 0].long()
        return {"clf": clf[rows], "gp_all": protos[rows]}

    held = LocalData(torch.arange(4.0)[:, None], y)
    parts = list(scored_held(predict, held, held, 2))
    assert [labels.tolist() for _, labels in parts] == [[0, 1], [1, 0]]
    assert sum(int((scores["ens"].argmax(1) == labels).sum()) for scores, labels in parts) == 0
