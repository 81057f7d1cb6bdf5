"""FedNH: the head's update and the loss, by hand."""

import math

import pytest
import torch
from by_hand import batch, floats, replies, turn

from protofed.algorithms.fednh import Body, BodyAndHead, FedNH
from protofed.testing import Toy, toy_data


class Embeds:
    def embed(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_update_of_the_head() -> None:
    """Class 0: W = (1, 0); means (0, 1) of 3 samples and (1, 0) of one: (¼, ¾). With ρ = ½ the row is
    (.5 + .125, .375) = (.625, .375), then of length 1. Class 1 is nobody's and stays."""
    state = BodyAndHead({}, floats([[1.0, 0.0], [0.0, 1.0]]))
    ups = [
        Body({"model.base.w": floats([w])}, floats([mean]), torch.tensor([0]), torch.tensor([n]))
        for w, mean, n in ((2.0, [0.0, 1.0], 3), (6.0, [1.0, 0.0], 1))
    ]
    found = FedNH(rho=0.5).aggregate(state, replies(*ups, n=[3, 1]), turn())
    length = math.hypot(0.625, 0.375)
    assert found.head[0].tolist() == pytest.approx([0.625 / length, 0.375 / length])
    assert found.head[1].tolist() == [0.0, 1.0]
    assert found.weights["model.base.w"].tolist() == [3.0]  # (3·2 + 1·6) / 4


def test_loss() -> None:
    """(0, 7) against (1, 0) and (0, 1): cosines 0 and 1; with s = 2 the loss of class 1 is log(1 + e^−2)."""
    loss = FedNH(scale=2.0).loss(Embeds(), batch(floats([[0.0, 7.0]]), [1]), {"head": torch.eye(2).double()})
    assert float(loss) == pytest.approx(math.log(1 + math.exp(-2)))


def test_clients_send_means_of_unit_length_rows() -> None:
    task = Toy("fednh").build().task
    data = toy_data("train", 0)
    up, _ = task.algorithm.upload(task.live(0), data, None, {}, None, type("T", (), {"task": task}))
    z = torch.nn.functional.normalize(task.live(0).embed(data.x))
    assert torch.allclose(up.mean[1], z[data.y == 1].mean(0))
    assert up.n.tolist() == [9, 7]
    assert all(name.startswith("model.base.") for name in up.weights)


def test_the_first_head_is_a_simplex_and_only_the_body_is_trained() -> None:
    built = Toy("fednh", {"rho": 1.0}).build()
    head = built.federation.state.head
    expected = torch.full((5, 5), -0.25, dtype=torch.float64).fill_diagonal_(1)
    assert torch.allclose(head @ head.T, expected)
    built.federation.play()
    assert torch.allclose(built.federation.state.head, head)  # ρ = 1: nothing is let in
