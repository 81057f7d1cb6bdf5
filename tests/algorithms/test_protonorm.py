"""ProtoNorm: what the server makes of uploads, and the clients' loss, by hand."""

import pytest
import torch
from by_hand import CROSS_ENTROPY, IdentityNet, batch, floats, replies, turn

from protofed.algorithms.protonorm import ProtoNorm
from protofed.ops.exchange import KnownPrototypes
from protofed.ops.prototypes import Protos


def _nothing() -> KnownPrototypes:
    return KnownPrototypes(torch.zeros(3, 2, dtype=torch.float64), torch.zeros(3, dtype=torch.int64))


def test_plain_mean_on_the_sphere() -> None:
    """Class 0: mean of (4, 0) and (2, 8) is (3, 4), of length 5; with s = 10 and no repulsion (6, 8)."""
    ups = Protos(floats([[4.0, 0.0]]), torch.tensor([0])), Protos(floats([[2.0, 8.0]]), torch.tensor([0]))
    state = ProtoNorm(scale=10.0, steps=0).aggregate(_nothing(), replies(*ups), turn())
    assert torch.allclose(state.mean, floats([[6.0, 8.0], [0.0, 0.0], [0.0, 0.0]]))
    assert state.known.tolist() == [1, 0, 0]


def test_two_classes_end_opposite() -> None:
    """Two points that repel each other on a circle end at 180 degrees."""
    up = Protos(floats([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([0, 2]))
    state = ProtoNorm(scale=1.0, steps=300).aggregate(_nothing(), replies(up), turn())
    assert float(state.mean[0] @ state.mean[2]) == pytest.approx(-1, abs=1e-3)


def test_a_class_that_is_absent_keeps_its_direction() -> None:
    old = KnownPrototypes(floats([[0.0, 5.0], [0.0, 0.0], [0.0, 0.0]]), torch.tensor([1, 0, 0]))
    up = Protos(floats([[7.0, 0.0]]), torch.tensor([1]))
    state = ProtoNorm(scale=2.0, steps=0).aggregate(old, replies(up), turn())
    assert torch.allclose(state.mean[:2], floats([[0.0, 2.0], [2.0, 0.0]]))


def test_loss() -> None:
    """(1, 3) to (3, −1): squares 4 and 16, mean 10; λ = ½."""
    view = {
        "protos": floats([[3.0, -1.0], [0.0, 0.0], [0.0, 0.0]]),
        "known": torch.tensor([True, False, False]),
    }
    loss = ProtoNorm(lam=0.5).loss(IdentityNet(), batch(floats([[1.0, 3.0]]), [0]), view)
    assert float(loss) == pytest.approx(CROSS_ENTROPY + 5)
