"""Dense labels: prototypes and losses on feature maps, by hand and under vmap."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from protofed.core.data import Batch, LocalData
from protofed.ops.losses import ce, class_pull, sample_pull
from protofed.ops.prototypes import class_means, class_sums, features, rows

# One image: a 2×2 map of 2 channels, labels of 4×4 pixels. Nearest takes pixels (0,0), (0,2), (2,0), (2,2).
MAP = torch.tensor([[[[1.0, 2], [3, 4]], [[10, 20], [30, 40]]]], dtype=torch.float64)
LABELS = torch.tensor([[[0, 9, 1, 9], [9, 9, 9, 9], [-1, 9, 1, 9], [9, 9, 9, 9]]])


def batch(y: Tensor) -> Batch:
    return Batch(y, y, y, y, {})


def test_rows_pair_each_position_with_its_pixel() -> None:
    z, y = rows(MAP, LABELS)
    assert z.tolist() == [[1, 10], [2, 20], [3, 30], [4, 40]]
    assert y.tolist() == [0, 1, -1, 1]


def test_class_sums_leave_out_void() -> None:
    """Class 0: (1,10). Class 1: (2,20) + (4,40). The void position (3,30) is nowhere."""
    sums, count = class_sums(MAP, LABELS, 2)
    assert sums.tolist() == [[1, 10], [6, 60]]
    assert count.tolist() == [1, 2]


def test_ce_is_a_mean_over_pixels_that_are_not_void() -> None:
    """Two classes, logits (0,0) everywhere: log 2 whatever the number of void pixels; 0 if all are void."""
    logits = torch.zeros(1, 2, 1, 3)
    assert ce(logits, torch.tensor([[[0, -1, 1]]])).item() == pytest.approx(math.log(2))
    void = logits.requires_grad_()
    loss = ce(void, torch.full((1, 1, 3), -1))
    assert loss.item() == 0
    assert torch.autograd.grad(loss, void)[0].abs().sum() == 0


def test_sample_pull_counts_positions_that_are_not_void() -> None:
    """Prototype of class 1: (2,20); class 0 has none. Squared distances 0 and 4+400 at class 1, 0 at class 0,
    void not counted: 404/3, half of it as mse."""
    protos = torch.tensor([[7.0, 7], [2, 20]], dtype=torch.float64)
    known = torch.tensor([False, True])
    assert sample_pull(MAP, batch(LABELS), protos, known, "l2sq").item() == pytest.approx(404 / 3)
    assert sample_pull(MAP, batch(LABELS), protos, known, "mse").item() == pytest.approx(202 / 3)
    void = torch.full_like(LABELS, -1)
    assert sample_pull(MAP, batch(void), protos, known, "l2sq").item() == 0


def test_class_pull_compares_means_of_positions() -> None:
    """Mean of class 1: (3,30); prototype (3,26): distance 4. Class 0 has no prototype."""
    protos = torch.tensor([[0.0, 0], [3, 26]], dtype=torch.float64)
    pull = class_pull(MAP, batch(LABELS), protos, torch.tensor([False, True]), "l2")
    assert pull.tolist() == pytest.approx([0, 4])


def test_losses_under_vmap() -> None:
    """Three clients stacked, void pixels included, equal the single calls."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(3, 2, 5, 2, 2, generator=generator, dtype=torch.float64)
    logits = torch.randn(3, 2, 4, 8, 8, generator=generator, dtype=torch.float64)
    y = torch.randint(-1, 4, (3, 2, 8, 8), generator=generator)
    protos = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    known = torch.tensor([True, False, True, True])

    def losses(z: Tensor, logits: Tensor, y: Tensor) -> Tensor:
        pulls = (
            class_pull(z, batch(y), protos, known, "l2").sum(),
            sample_pull(z, batch(y), protos, known, "mse"),
        )
        return torch.stack([ce(logits, y), *pulls])

    together = torch.func.vmap(losses)(z, logits, y)
    for k in range(3):
        assert torch.allclose(together[k], losses(z[k], logits[k], y[k]), atol=1e-12)


class Doubler:
    """A net whose embedding is twice the input."""

    def embed(self, x: Tensor) -> Tensor:
        return 2 * x


def test_passes_run_in_small_chunks() -> None:
    """70 equal images go through in pieces of at most 32; the means are those of one image, doubled."""
    data = LocalData(MAP.expand(70, -1, -1, -1), LABELS.expand(70, -1, -1))
    sizes = [len(x) for x, _ in data.chunks()]
    assert sizes == [32, 32, 6]
    net: Doubler = Doubler()
    mean, count = class_means(net, data, 2)  # type: ignore[arg-type]
    assert mean.tolist() == [[2, 20], [6, 60]]
    assert count.tolist() == [70, 140]
    z, y = features(net, data)  # type: ignore[arg-type]
    assert z.shape == (280, 2)
    assert y[:4].tolist() == [0, 1, -1, 1]
    assert data.present(10).tolist() == [True, True] + [False] * 7 + [True]
