"""Entropy maps of a net whose outputs are known, and the picture file."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from protofed.core.errors import ConfigError
from protofed.metrics.entropy_maps import draw_maps, entropy_maps


class Fixed:
    """Features: two channels of 1 on a 2×2 map. Logits: class 0 on the left, unsure on the right."""

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = torch.zeros(len(x), 2, 4, 4)
        logits[:, 0, :, :2] = 100
        return torch.ones(len(x), 2, 2, 2), logits


def test_maps_by_hand() -> None:
    """Left: a sure pixel has entropy 0; right: two equal classes, log 2. Two equal channels: log 2."""
    maps = entropy_maps(Fixed(), torch.zeros(3, 3, 4, 4))  # type: ignore[arg-type]
    assert maps.classes.eq(0).all()
    assert maps.softmax[:, :, :2].abs().max() < 1e-6
    assert torch.allclose(maps.softmax[:, :, 2:], torch.tensor(math.log(2)))
    assert maps.features.shape == (3, 4, 4)
    assert torch.allclose(maps.features, torch.tensor(math.log(2)))


@pytest.mark.parametrize("channels", [1, 3])
def test_picture_is_written(tmp_path: Path, channels: int) -> None:
    pytest.importorskip("matplotlib")
    x = torch.rand(2, channels, 4, 4)
    y = torch.tensor([[[0, 1, 1, -1]] * 4] * 2)
    with_truth = draw_maps(Fixed(), x, tmp_path / "maps.png", y)  # type: ignore[arg-type]
    without = draw_maps(Fixed(), x, tmp_path / "bare.png")  # type: ignore[arg-type]
    width = {p: int.from_bytes(p.read_bytes()[16:20], "big") for p in (with_truth, without)}
    assert width == {with_truth: 1000, without: 800}  # 2 inches a column, 100 dots an inch


def test_wrong_files_and_models_are_refused(tmp_path: Path) -> None:
    x = torch.zeros(1, 3, 4, 4)
    with pytest.raises(ConfigError, match=r"must end in \.png or \.svg"):
        draw_maps(Fixed(), x, tmp_path / "maps.txt")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is not a folder"):
        draw_maps(Fixed(), x, tmp_path / "missing" / "maps.png")  # type: ignore[arg-type]
    flat = lambda x: (torch.zeros(1, 2), torch.zeros(1, 3))  # noqa: E731
    with pytest.raises(ConfigError, match="need a segmentation model"):
        entropy_maps(flat, x)  # type: ignore[arg-type]
