"""FedORGP: loss of clients and server, by hand."""

import math

import pytest
import torch
from by_hand import CROSS_ENTROPY, IdentityNet, batch, floats, replies

from protofed.algorithms.fedorgp import FedORGP
from protofed.core.task import Turn
from protofed.ops.exchange import KnownPrototypes
from protofed.ops.prototypes import Protos
from protofed.testing import Toy


def test_loss_of_the_server() -> None:
    """Upload (1, 0) of class 0; prototypes (3, 4), (0, 2), (1, 0). Cosines .6, 0, 1. Class 2 is not known
    yet, so the others are class 1 alone: 2·(1 − .6) + 5·|0| = .8; with class 2 known
    (0 + 1)/2 · 5 = 2.5 more."""
    method = FedORGP(lam_server=2.0, gamma=5.0)
    mean, cls, protos = floats([[1.0, 0.0]]), torch.tensor([0]), floats([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]])
    assert float(method.server_loss(mean, cls, protos, torch.tensor([True, True, False]))) == pytest.approx(
        0.8
    )
    assert float(method.server_loss(mean, cls, protos, torch.tensor([True] * 3))) == pytest.approx(3.3)


def test_loss_of_a_client() -> None:
    """Embeddings (1, 0) of class 0 with prototype (1, 1), and (5, 0) of class 1 without one: the mean of
    1 − 1/√2 and 0, times λ, beside the cross-entropy."""
    view = {
        "protos": floats([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]),
        "known": torch.tensor([True, False, False]),
    }
    loss = FedORGP(lam=4.0).loss(IdentityNet(), batch(floats([[1.0, 0.0], [5.0, 0.0]]), [0, 1]), view)
    assert float(loss) == pytest.approx(CROSS_ENTROPY + 4 * (1 - 1 / math.sqrt(2)) / 2)


def test_the_server_turns_prototypes_apart() -> None:
    """Uploads of two classes at 30 degrees: trained prototypes are further apart, and each nearer its own."""
    task = Toy("fedorgp").build().task
    method, turn = task.algorithm, Turn(task, 1)
    start = method.init(task, turn)
    angle = math.radians(30)
    rows = torch.zeros(2, task.D, dtype=torch.float64)
    rows[0, 0], rows[1, 0], rows[1, 1] = 1, math.cos(angle), math.sin(angle)
    state = method.aggregate(start, replies(Protos(rows, torch.tensor([0, 1]))), turn)
    assert isinstance(state, KnownPrototypes)
    assert state.known.tolist() == [1, 1, 0, 0, 0]
    unit = torch.nn.functional.normalize(state.mean)
    assert float(unit[0] @ unit[1]) < math.cos(angle)
    assert float(unit[0] @ rows[0]) > abs(float(unit[1] @ rows[0]))
    assert torch.equal(state.mean[2:], start.mean[2:])  # nobody spoke of the others
