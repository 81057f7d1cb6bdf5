"""PSNR, scaled errors, AUC, TPR at an FPR, and ε from counts, with numbers worked out by hand."""

import math

import pytest
import torch
from scipy.stats import beta

from protofed.metrics.attack_scores import auc, epsilon_found, psnr, scaled_error, tpr_at


def test_psnr():
    """Two of four pixels are off by 0.2: mean square 0.02; 10·log10(1/0.02) = 16.99 dB."""
    truth = torch.zeros(1, 2, 2, dtype=torch.float64)
    found = torch.tensor([[[0.2, 0.0], [0.0, -0.2]]], dtype=torch.float64)
    assert float(psnr(found, truth, 1.0)) == pytest.approx(10 * math.log10(50))
    assert float(psnr(found, truth, 2.0)) == pytest.approx(10 * math.log10(200))
    both = psnr(found, torch.stack([truth, found + 0.1]), 1.0)  # one guess against two images
    assert both.tolist() == pytest.approx([10 * math.log10(50), 20.0])
    assert math.isinf(float(psnr(truth, truth, 1.0)))


def test_errors_on_the_scale_of_each_input():
    """Errors 1, 2, 3 with variances 1, 4, 0: (1 + 1)/2; what never varies is left out."""
    error = scaled_error(torch.tensor([1.0, 2.0, 3.0]), torch.zeros(2, 3), torch.tensor([1.0, 4.0, 0.0]), 1)
    assert error.tolist() == [1.0, 1.0]


def test_auc_counts_pairs_and_ties_by_half():
    """Members 3, 1, 2 against 0, 2: pairs won 2 + 1 + 1, one tie: 4.5 of 6."""
    members, others = torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0.0, 2.0])
    assert auc(members, others) == pytest.approx(4.5 / 6)
    assert auc(others, members) == pytest.approx(1.5 / 6)
    same = torch.full((4,), -math.inf)
    assert auc(same, same) == 0.5
    assert math.isnan(auc(members, others[:0]))


def test_members_found_at_a_share_of_false_ones():
    """Others 1 to 100: at 1 % one may lie above the threshold, so it is 99; members 100 and 99.5 do."""
    others = torch.arange(1.0, 101.0)
    members = torch.tensor([100.0, 99.5, 99.0, 3.0])
    assert tpr_at(members, others, 0.01) == 0.5
    assert tpr_at(members, others[:50], 0.01) == 0.75  # below 100 others: none may, the threshold is 50
    assert tpr_at(torch.full((3,), 5.0), torch.full((3,), 5.0), 0.01) == 0.0


def test_epsilon_from_counts():
    """Always right on 1000 + 1000 draws: TPR ≥ 0.025^(1/1000), FPR ≤ 1 − that; their ratio is about 270."""
    low = 0.025 ** (1 / 1000)
    assert epsilon_found(1000, 1000, 0, 1000, 0.0, 0.95) == pytest.approx(math.log(low / (1 - low)))
    assert epsilon_found(500, 1000, 500, 1000, 0.0, 0.95) == 0.0  # a coin proves nothing
    hits, wrong = beta.ppf(0.025, 300, 701), beta.ppf(0.975, 101, 900)
    assert epsilon_found(300, 1000, 100, 1000, 1e-3, 0.95) == pytest.approx(math.log((hits - 1e-3) / wrong))
    assert epsilon_found(900, 1000, 700, 1000, 1e-3, 0.95) == pytest.approx(
        epsilon_found(300, 1000, 100, 1000, 1e-3, 0.95)
    )  # the same test with its answers turned round
