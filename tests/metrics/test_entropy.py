"""Entropies at pixels, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from protofed.metrics.entropy import entropy_features, entropy_softmax


def test_of_the_softmax() -> None:
    """Equal logits of 4 classes: log 4. Logits 0 and log 3: p = 1/4, 3/4, H = 0.562335. One huge: 0."""
    assert entropy_softmax(torch.zeros(2, 4, 3, 5)).shape == (2, 3, 5)
    assert float(entropy_softmax(torch.zeros(1, 4, 1, 1))) == pytest.approx(math.log(4))
    two = torch.tensor([0.0, math.log(3)]).reshape(1, 2, 1, 1)
    assert float(entropy_softmax(two)) == pytest.approx(0.562335, abs=1e-6)
    huge = torch.tensor([0.0, 1e4]).reshape(1, 2, 1, 1)
    assert float(entropy_softmax(huge)) == pytest.approx(0, abs=1e-6)


def test_of_features() -> None:
    """Channels (1,3,−7) → (1/4,3/4,0): 0.562335; (2,2,2): log 3; (−1,0,−2): nothing positive, 0.

    In a row of two pixels a and b, doubled bilinearly: a, (3a+b)/4, (a+3b)/4, b.
    """
    pixels = torch.tensor([[1.0, 3, -7], [2, 2, 2], [-1, 0, -2]])
    values = [float(entropy_features(p.reshape(1, 3, 1, 1), (1, 1))) for p in pixels]
    assert values == pytest.approx([0.562335, math.log(3), 0], abs=1e-6)
    got = entropy_features(pixels[1:].T.reshape(1, 3, 1, 2), (2, 4))
    expected = math.log(3) * torch.tensor([1, 0.75, 0.25, 0])
    torch.testing.assert_close(got[0], expected.expand(2, 4))
