"""The control with fixed anchors: where they lie, that nothing is sent, what is predicted."""

import pytest
import torch
from by_hand import CROSS_ENTROPY, IdentityNet, batch, floats

from protofed.algorithms.anchors import Anchors
from protofed.config import resolve
from protofed.core.data import LocalData
from protofed.core.errors import ConfigError
from protofed.core.record import Nothing
from protofed.experiment import build
from protofed.testing import Toy


def test_targets_are_a_simplex_of_the_radius() -> None:
    """Five classes: all pairs have the cosine −¼, all lengths are r."""
    task = Toy("anchors", {"radius": 3.0}).build().task
    rows = task.algorithm.targets(task)
    expected = torch.full((5, 5), -9 / 4, dtype=torch.float64).fill_diagonal_(9)
    assert torch.allclose(rows @ rows.T, expected)
    assert torch.equal(rows, task.algorithm.targets(task))  # from the seed alone


def test_loss() -> None:
    """(3, 0) to the anchor (0, 4) is 5 away; λ = 2."""
    view = {"anchors": floats([[0.0, 4.0], [0.0, 0.0], [0.0, 0.0]]), "known": torch.tensor([True] * 3)}
    loss = Anchors(lam=2.0).loss(IdentityNet(), batch(floats([[3.0, 0.0]]), [0]), view)
    assert float(loss) == pytest.approx(CROSS_ENTROPY + 10)


def test_the_nearest_anchor_is_predicted() -> None:
    mem = {"anchors": floats([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])}
    mem |= {"mean": floats([[0.0, 0.0]] * 3), "n": torch.zeros(3)}
    own = LocalData(torch.zeros(2, 2), torch.tensor([0, 2]))
    scores = Anchors().predict(IdentityNet(), floats([[0.1, 1.0]]), own, Nothing(), mem)
    assert int(scores["gp_all"].argmax()) == 1
    assert int(scores["gp_local"].argmax()) == 0  # class 1 is not among the client's own
    assert Anchors().predict(IdentityNet(), floats([[0.1, 1.0]]), own, Nothing(), {})["gp_all"].tolist() == [
        [0] * 3
    ]


def test_nothing_is_sent() -> None:
    record = Toy("anchors").build().federation.play()
    assert record["up"]["bytes"] == record["down"]["bytes"] == 0


def test_too_many_classes_for_a_simplex() -> None:
    with pytest.raises(
        ConfigError, match=r"10 classes do not fit simplex into 4 dimensions; use kind=random"
    ):
        build(resolve({"method": "anchors", "models": "mlp:dim=4"}))
