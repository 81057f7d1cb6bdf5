"""FedRE: the mixture, and what the server learns from it, by hand."""

import torch
from by_hand import floats

from protofed.algorithms.fedre import Entangled, mixture
from protofed.core.answer import Replies, Reply
from protofed.core.record import Weights
from protofed.core.task import ClientTurn, Turn
from protofed.testing import CLASSES, EMBEDDING, Toy, toy_data


def test_one_weight_for_embedding_and_label() -> None:
    """Weights 1 and 3 are ¼ and ¾: ¼·(4, 0) + ¾·(0, 8) = (1, 6), and labels ¼ of class 2, ¾ of class 0."""
    up = mixture(
        floats([[4.0, 0.0], [0.0, 8.0]]), floats([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]), floats([1.0, 3.0])
    )
    assert up.mixed.tolist() == [[1.0, 6.0]]
    assert up.label.tolist() == [[0.75, 0.0, 0.25]]


def test_a_step_on_a_soft_label() -> None:
    """Header 0, bias 0: softmax is 1/5 everywhere, so ∇_W = (1/5 − q) rᵀ: one step with η = 1 gives
    W = (q − 1/5) rᵀ. r = (2, 0, …), q = (½, ½, 0, 0, 0): rows .6, .6, −.4, −.4, −.4 in the first column."""
    task = Toy("fedre", {"server_lr": 1.0, "server_epochs": 1}).build().task
    zero = {"model.head.weight": torch.zeros(CLASSES, EMBEDDING, dtype=torch.float64)}
    zero["model.head.bias"] = torch.zeros(CLASSES, dtype=torch.float64)
    r = torch.zeros(1, EMBEDDING, dtype=torch.float64)
    r[0, 0] = 2
    up = Entangled(r, floats([[0.5, 0.5, 0.0, 0.0, 0.0]]))
    state = task.algorithm.aggregate(Weights(zero), Replies(iter([Reply(0, 1, up)])), Turn(task, 1))
    weight = state.weights["model.head.weight"]
    assert torch.allclose(weight[:, 0], floats([0.6, 0.6, -0.4, -0.4, -0.4]))
    assert not weight[:, 1:].any()


def test_a_client_sends_one_vector_drawn_anew_each_round() -> None:
    for over in ("classes", "samples"):
        task = Toy("fedre", {"over": over}).build().task
        method, net, data = task.algorithm, task.live(0), toy_data("train", 3)
        turns = [ClientTurn(task, round, client=3) for round in (1, 2)]
        ups = [method.upload(net, data, None, {}, None, turn)[0] for turn in turns]
        assert ups[0].mixed.shape == (1, EMBEDDING)
        assert float(ups[0].label.sum()) == 1.0 or abs(float(ups[0].label.sum()) - 1) < 1e-12
        assert (ups[0].label[0] > 0).tolist() == [True, True, True, False, False]  # the client's own classes
        assert not torch.equal(ups[0].mixed, ups[1].mixed)
