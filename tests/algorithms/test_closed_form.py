"""FedNCM, Fed3R and FedCOF: heads by hand, equal to the centralised ones, sent once."""

from unittest.mock import patch

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from protofed.algorithms.fed3r import Fed3R
from protofed.algorithms.fedcof import FedCOF
from protofed.algorithms.fedncm import FedNCM
from protofed.config import resolve
from protofed.core.answer import Replies, Reply
from protofed.core.task import Turn
from protofed.ops.moments import moments_of
from protofed.ops.pooled import Sums
from protofed.testing import COUNTS, Toy

FAMILY = ("fedncm", "fed3r", "fedcof")
EVERYBODY = range(len(COUNTS))


def floats(values):
    return torch.tensor(values, dtype=torch.float64)


def played(method, **settings):
    experiment = Toy(method, {"size": 16, "standardise": False}).build(**{"rounds": 3, **settings})
    return experiment, experiment.play(None)


def everything(experiment):
    """Features and labels of all clients in one place."""
    parts = [experiment.data.train(k) for k in EVERYBODY]
    phi = experiment.task.algorithm.map(experiment.task)
    return phi(torch.cat([p.x for p in parts]), torch.zeros(0, 0)), torch.cat([p.y for p in parts])


def test_class_means_by_hand():
    """Class 0: (3, 0) and (3, 8), mean (3, 4) of length 5; class 1: (2, 0)."""
    m = moments_of([(floats([[3, 0], [3, 8], [2, 0]]), torch.tensor([0, 0, 1]))], 2, gram=False)
    weight, bias = FedNCM().solve(m, None)
    assert (weight.tolist(), bias.tolist()) == ([[3, 4], [2, 0]], [-12.5, -2.0])
    weight, bias = FedNCM(score="product").solve(m, None)
    assert (weight.tolist(), bias.tolist()) == ([[0.6, 0.8], [1, 0]], [0, 0])


def test_the_paper_takes_products():
    assert resolve({"method": "fedncm", "preset": "paper"}).make_method().score == "product"


def test_ridge_regression_by_hand():
    """One feature: 1 of class 0 and −1 of class 1, λ = 1. With the constant, A = diag(2, 2) + I = diag(3, 3)
    and B = ((1, 1), (−1, 1)) (feature, constant) by class: weights ±1/3, biases 1/3; at unit length ±1, 1."""
    m = moments_of([(floats([[1], [-1]]), torch.tensor([0, 1]))], 2)
    weight, bias = Fed3R(lam=1.0, normalise=False).solve(m, None)
    assert weight.flatten().tolist() == pytest.approx([1 / 3, -1 / 3])
    assert bias.tolist() == pytest.approx([1 / 3, 1 / 3])
    weight, bias = Fed3R(lam=1.0).solve(m, None)
    assert weight.flatten().tolist() + bias.tolist() == pytest.approx([1, -1, 1, 1])


@pytest.mark.parametrize("settings", [{}, {"sample": 2, "rounds": 14}])
def test_fed3r_is_centralised_ridge_regression(settings):
    """scikit-learn's, on all samples and a constant feature, whatever the division and the participation."""
    experiment = Toy("fed3r", {"size": 16, "standardise": False, "normalise": False, "lam": 0.5}).build(
        **{"rounds": 2, **settings}
    )
    experiment.play(None)
    features, y = everything(experiment)
    wide = np.hstack([features.numpy(), np.ones((len(y), 1))])
    theirs = Ridge(alpha=0.5, fit_intercept=False, solver="cholesky").fit(wide, np.eye(5)[y.numpy()])
    head = experiment.federation.state.head
    np.testing.assert_allclose(head["weight"].numpy(), theirs.coef_[:, :-1], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(head["bias"].numpy(), theirs.coef_[:, -1], rtol=1e-8, atol=1e-10)


def cof_state(method, uploads):
    """The server's state after clients sent (client, features, labels)."""
    task = Toy("fedcof", {"size": 16, "standardise": False}).build().task
    state, replies = method.init(task, Turn(task, 0)), []
    for client, features, y in uploads:
        m = moments_of([(floats(features), torch.tensor(y))], task.C, gram=False)
        cls = torch.nonzero(m.n)[:, 0]
        none = torch.zeros(0, 0, dtype=torch.float64)
        rows = torch.nn.functional.pad(m.sums[cls], (0, state.sums.shape[1] - m.sums.shape[1]))
        up = Sums(none.new_zeros(0, state.gram.shape[1]), rows, cls, m.n[cls].long(), none, torch.tensor([0]))
        replies.append(Reply(client, len(y), up))
    return method.aggregate(state, Replies(iter(replies)), Turn(task, 1))


def test_covariance_from_means_by_hand():
    """First feature, all else 0. Client 0 has class 0 at 1 and 3 (mean 2, n = 2), client 1 at 6 (n = 1): N =
    3, mean 10/3, K = 2. Σ̂ = 2·(4/3)² + 1·(8/3)² = 96/9, + γ = 1; (N − 1) Σ̂ = 2·(96/9 + 1) = 70/3 on this
    feature, 2 on the others. Class 1 at 4 with one client and n = 1 weighs 0. G adds N μμᵀ = 14²/4: 217/3.
    w_0 = 10·3/217, w_1 = 4·3/217; at unit length both are 1."""
    uploads = [(0, [[1.0], [3.0]], [0, 0]), (1, [[6.0], [4.0]], [0, 1])]
    for method, wanted in ((FedCOF(size=16), 217 / 3), (FedCOF(size=16, total_mean=False), 70 / 3)):
        state = cof_state(method, uploads)
        assert state.n.tolist()[:2] == [3, 1]
        assert state.head["weight"][:2, 0].tolist() == pytest.approx([1, 1])
        with patch("protofed.algorithms.fedcof.normalize", lambda rows: rows):
            plain = method.solved(state)["weight"]
        assert plain[:2, 0].tolist() == pytest.approx([10 / wanted, 4 / wanted])


@pytest.mark.parametrize("method", FAMILY)
def test_sums_and_head_are_sent_once(method):
    """M = 16: 136 entries of a triangle (Fed3R), 12 owned classes; a head of 4 known classes to 6 clients."""
    _, records = played(method)
    gram = 6 * 136 if method == "fed3r" else 0
    assert [r["up"]["params"] for r in records] == [gram + 12 * 16, 0, 0]
    assert [r["down"]["params"] for r in records] == [0, 6 * 4 * 17, 0]
    assert all(r["steps"] == 0 for r in records)


@pytest.mark.parametrize("method", FAMILY)
def test_a_client_leaves_without_a_trace(method):
    experiment, _ = played(method)
    algorithm, task = experiment.task.algorithm, experiment.task
    got = algorithm.forget(experiment.federation.state, 4, experiment.data.train(4), task)
    never = Toy(method, {"size": 16, "standardise": False}).build(rounds=1)
    run = never.federation.engine.run
    never.federation.engine.run = lambda jobs: run([job for job in jobs if job.client != 4])
    never.federation.play()
    for name, tensor in never.federation.state.head.items():
        torch.testing.assert_close(got.head[name], tensor, rtol=1e-6, atol=1e-6)
    assert got.n.tolist() == never.federation.state.n.tolist()


def test_fedcof_has_no_choice_of_a_ledger():
    assert FedCOF().ledger
    assert "ledger" not in FedCOF.__dataclass_fields__
