"""Measures of a run: tiny federations whose features and gradients are known by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from protofed.analysis.run_metrics import (
    aggregate_mean_margin,
    aggregate_prototypes,
    evaluated_net,
    full_gradient,
    gradient_dissimilarity,
    mean_mmd,
    prototype_distance,
    reference_features,
    trained_net,
)
from protofed.analysis.training_fit import aggregate_loss, train_error, training_scores
from protofed.config import resolve
from protofed.core.data import LocalData
from protofed.core.errors import ConfigError
from protofed.core.task import Group
from protofed.data.federated import OwnData
from protofed.experiment import Experiment, make_task
from protofed.federating import make_federation
from protofed.models.base import Model
from protofed.testing import Toy, assert_equal, snapshot


def identity(classes: int = 2) -> Model:
    """The embedding is the input; the head starts at zero, so every class has probability 1/C."""
    base, head = nn.Linear(2, 2, bias=False), nn.Linear(2, classes, bias=False)
    nn.init.eye_(base.weight)
    nn.init.zeros_(head.weight)
    return Model(base, head)


def experiment(
    method: str, parts: list[tuple[Any, Any]], groups: list[Group] | None = None, **settings: Any
) -> Experiment:
    """Clients with these (x, y), which they are also tested on. Nothing was played yet."""
    data = [LocalData(torch.tensor(x, dtype=torch.float64), torch.tensor(y)) for x, y in parts]
    values = {"method": method, "clients": len(parts), "dtype": "float64", "momentum": 0.0, **settings}
    config = resolve(values)
    groups = groups or [Group("identity", identity)]
    index = np.arange(len(parts)) % len(groups)
    task = make_task(config, config.make_method(), groups, index, (2,), ("a", "b"))
    own = OwnData(data, data)
    return Experiment(config, task, own, make_federation(config, task, own))


TWO = [([[0, 0], [2, 0], [0, 3]], [0, 0, 1]), ([[4, 0], [0, 5]], [0, 1])]


def test_aggregate_prototypes_by_hand() -> None:
    """Class 0: ((0,0) + (2,0) + (4,0))/3 = (2,0); class 1: ((0,3) + (0,5))/2 = (0,4). AMM: √(4 + 16)."""
    mean, n = aggregate_prototypes(experiment("fedavg", TWO))
    assert mean.tolist() == [[2, 0], [0, 4]]
    assert n.tolist() == [3, 2]
    assert aggregate_mean_margin(experiment("fedavg", TWO)) == pytest.approx(math.sqrt(20))


def test_aggregate_of_some_clients() -> None:
    """Client 0 alone: (1,0) and (0,3), √10 apart. A single class has no margin."""
    assert aggregate_mean_margin(experiment("fedavg", TWO), [0]) == pytest.approx(math.sqrt(10))
    assert math.isnan(aggregate_mean_margin(experiment("fedavg", [([[1, 1]], [0])])))


def test_gradient_dissimilarity_by_hand() -> None:
    """Client 0: x = (1,0), class 0. Client 1: x = (0,1), class 1, three times. Zero head: p = ½ each, so
    ∂L/∂head = (p − onehot) xᵀ: g_0 = [[−½,0],[½,0]], g_1 = [[0,½],[0,−½]]; the base gets headᵀ… = 0.
    Weights ¼ and ¾: ∇L = ¼g_0 + ¾g_1. ‖g_k‖² = ½, orthogonal. ‖g_0 − ∇L‖² = 9/16·½ + 9/16·½ = 9/16,
    ‖g_1 − ∇L‖² = 1/16. Mean 5/16."""
    run = experiment("fedavg", [([[1, 0]], [0]), ([[0, 1]] * 3, [1] * 3)])
    first = full_gradient(run, 0).tolist()
    assert first == [0, 0, 0, 0, -0.5, 0, 0.5, 0]
    assert gradient_dissimilarity(run) == pytest.approx(5 / 16)


def test_gradient_dissimilarity_equals_that_of_kept_gradients() -> None:
    run = Toy("fedavg").build(rounds=2)
    run.play(None)
    grads = [full_gradient(run, c) for c in run.active]
    sizes = torch.tensor([float(run.data.size(c)) for c in run.active])
    mean = ((sizes / sizes.sum())[:, None] * torch.stack(grads)).sum(0)
    expected = float(torch.stack([(g - mean).square().sum() for g in grads]).mean())
    assert gradient_dissimilarity(run) == pytest.approx(expected)


def test_equal_clients_are_not_dissimilar() -> None:
    run = experiment("fedavg", [([[1, 0], [0, 1]], [0, 1])] * 3)
    assert gradient_dissimilarity(run) == pytest.approx(0, abs=1e-15)


def test_prototype_distance_by_hand() -> None:
    """After a round without epochs the global prototypes are (2,0) and (0,4), as above.
    Client 0: (0,0) 4, (2,0) 0, (0,3) 1: mse (5/3)/2. Client 1: (4,0) 4, (0,5) 1: (5/2)/2."""
    run = experiment("fedproto", TWO, epochs=0, rounds=1)
    run.play(None)
    assert prototype_distance(run) == pytest.approx((5 / 6 + 5 / 4) / 2)
    with pytest.raises(ConfigError, match="fedavg has no global prototypes"):
        prototype_distance(experiment("fedavg", TWO))


def test_prototype_distance_before_any_prototype() -> None:
    assert math.isnan(prototype_distance(experiment("fedproto", TWO)))


def test_mmd_by_hand() -> None:
    """Reference: samples 0 and 1 on the axis. A run whose net is the same: client 0 has {0}, client 1 {1}.
    Pooled {0, 0, 1}: σ² = 1, q = e^{−½}. MMD² = 1 + (2 + 2q)/4 − 2(1 + q)/2 = (1 − q)/2, for both alike."""
    parts = [([[0, 0]], [0]), ([[1, 0]], [1])]
    reference = experiment("centralized", parts)
    run = experiment("fedavg", parts, epochs=0)
    expected = math.sqrt((1 - math.exp(-0.5)) / 2)
    assert mean_mmd(run, reference) == pytest.approx(expected)
    assert mean_mmd(run, reference, [1]) == pytest.approx(expected)
    assert reference_features(reference).sort(0).values.tolist() == [[0, 0], [1, 0]]


def test_mmd_of_a_net_that_sees_nothing() -> None:
    """The baseline's net throws the first coordinate away: all its features are 0. Reference {0, 1}: client
    features {0, 0} against {0, 1}: σ² = 1, MMD² = 1 + (1 + q)/2 − (1 + q) = (1 − q)/2; ours equals Q: 0."""
    parts = [([[0, 0], [1, 0]], [0, 1])]

    def blind() -> Model:
        model = identity()
        nn.init.zeros_(model.base.weight)
        return model

    baseline = experiment("fedavg", parts, [Group("blind", blind)], epochs=0)
    reference = experiment("centralized", parts)
    assert mean_mmd(baseline, reference) == pytest.approx(math.sqrt((1 - math.exp(-0.5)) / 2))
    assert mean_mmd(experiment("fedavg", parts, epochs=0), reference) == pytest.approx(0)


def test_samples_of_mmd_are_limited_and_fixed() -> None:
    run = experiment("centralized", [([[float(i), 0] for i in range(50)], [0, 1] * 25)] * 3)
    few = reference_features(run, 20)
    assert few.shape == (20, 2)
    assert torch.equal(few, reference_features(run, 20))


def test_trained_net_is_the_upload_and_changes_nothing() -> None:
    """W_k of the first round, before it is played: what the engine then gets from client 3."""
    run = Toy("fedproto_margin").build()
    before = snapshot(run)
    mine = trained_net(run, 3).tensors()
    assert_equal(before, snapshot(run))
    sent: dict[int, Any] = {}
    engine = run.federation.engine
    play = engine.run
    engine.run = lambda jobs: (sent.setdefault(o.client, o) for o in play(jobs))  # type: ignore[method-assign]
    run.federation.play()
    assert_equal(mine, sent[3].up.weights)
    assert_equal(evaluated_net(run, 3).tensors(), run.federation.state.weights)


def test_trained_net_of_clients_that_keep_their_model() -> None:
    run = Toy("fedproto").build(rounds=1)
    start = evaluated_net(run, 0).tensors()
    trained = trained_net(run, 0).tensors()
    run.play(None)
    assert_equal(trained, evaluated_net(run, 0).tensors())
    assert any(not torch.equal(start[n], trained[n]) for n in start)


def test_gradients_of_several_groups_cannot_be_compared() -> None:
    def wide() -> Model:
        return Model(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)), nn.Linear(2, 2))

    run = experiment("fedproto", TWO, [Group("identity", identity), Group("wide", wide)], epochs=1)
    with pytest.raises(ConfigError, match="one architecture"):
        gradient_dissimilarity(run)


def test_dense_runs_are_measured_per_position() -> None:
    """Two images of 2×2 positions, the embedding is the image. Class 0 at values 1, 2, 3, class 1 at 7, 9;
    the void positions (5, 5, 5) are nowhere: prototypes 2 and 8, 6 apart."""
    x = torch.tensor([[[[1.0, 2], [5, 5]]], [[[3, 7], [9, 5]]]], dtype=torch.float64)
    y = torch.tensor([[[0, 0], [-1, -1]], [[0, 1], [1, -1]]])

    def dense() -> nn.Module:
        base, head = nn.Conv2d(1, 1, 1, bias=False), nn.Conv2d(1, 2, 1, bias=False)
        nn.init.ones_(base.weight)
        nn.init.zeros_(head.weight)
        return Model(base, head)

    config = resolve({"method": "fedavg", "clients": 1, "dtype": "float64"})
    task = make_task(
        config, config.make_method(), [Group("d", dense)], np.zeros(1, int), (1, 2, 2), ("a", "b"), dense=True
    )
    own = OwnData([LocalData(x, y)], [LocalData(x, y)])
    run = Experiment(config, task, own, make_federation(config, task, own))
    assert aggregate_mean_margin(run) == pytest.approx(6)
    assert _sorted(reference_features(run)) == [1, 2, 3, 7, 9]
    # p − onehot = ∓½: (−½·6 + ½·16)/5 = 1 for the first class, −1 for the second; the base gets 0.
    assert full_gradient(run, 0).tolist() == pytest.approx([0, 1, -1])


def _sorted(values: Tensor) -> list[float]:
    return sorted(values.flatten().tolist())


# fit


def leaning(classes: int = 2) -> Model:
    """The embedding is the input, and so are the logits."""
    model = identity(classes)
    nn.init.eye_(model.head.weight)
    return model


def test_training_loss_and_error_of_the_aggregate_model_by_hand() -> None:
    """Logits are the inputs. Client 0: (0,0) and (2,0) of class 0, (0,3) of class 1; client 1: (4,0), (0,5).
    Losses log 2, log(1 + e⁻²), log(1 + e⁻³), log(1 + e⁻⁴), log(1 + e⁻⁵), over five samples; all are right
    ((0,0) by the first of equals). With client 1's labels swapped two of five are wrong: 40 %."""
    gaps = [0, 2, 3, 4, 5]
    run = experiment("fedavg", TWO, [Group("leaning", leaning)])
    expected = sum(math.log(1 + math.exp(-gap)) for gap in gaps) / 5
    assert aggregate_loss(run) == pytest.approx(expected)
    assert train_error(run) == 0
    assert aggregate_loss(run, [1]) == pytest.approx(sum(math.log(1 + math.exp(-gap)) for gap in (4, 5)) / 2)
    swapped = experiment("fedavg", [TWO[0], (TWO[1][0], [1, 0])], [Group("leaning", leaning)])
    assert train_error(swapped) == pytest.approx(40)


def test_training_error_is_of_the_main_mode() -> None:
    """FedTGP predicts by nearest global prototype: no error before it has one, and classifier and prototype
    may differ after it."""
    run = Toy("fedtgp").build(rounds=1)
    run.play(None)
    scores = training_scores(run)
    right, n = sum(s.correct["gp_all"] for s in scores), sum(s.n for s in scores)
    assert n == sum(run.data.size(client) for client in run.active)
    assert train_error(run) == pytest.approx(100 - 100 * right / n)
