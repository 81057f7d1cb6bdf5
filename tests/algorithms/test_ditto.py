"""Ditto: a shared model as FedAvg's, and own models near it."""

import math

import pytest
import torch
from tiny import BASE, HEAD, batch, net_of, tree, turn_of
from vmap_check import check_vmap

from protofed.algorithms.ditto import Ditto
from protofed.config import resolve
from protofed.core.client import assemble
from protofed.core.errors import ConfigError
from protofed.core.record import Weights
from protofed.core.task import Turn
from protofed.ops.trees import put, under
from protofed.testing import CHECKS, Toy, assert_equal

VARIANTS = [Toy("ditto", {"lam": 1.0, "e_own": 1}), Toy("ditto", {"params_only": True}, models="norm")]


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=lambda c: c.models)
def test_conformance_of_variants(case, check):
    check(case)


@pytest.mark.parametrize("models", ["mlp", "norm"])
def test_losses_run_under_vmap(models):
    check_vmap(Toy("ditto", {"lam": 1.0}, models=models))


def test_the_own_loss_by_hand():
    """x = 0: the cross-entropy is log 2 without gradient. Own base 3, received 1, own head (1, 2), received
    (1, 0): the squared distance is 8. λ = 0.5: the term is 0.25 · 8 = 2, its gradient 0.5 · (v − w)."""
    method = Ditto(lam=0.5)
    net = net_of({**tree(3.0, (1.0, 2.0)), **tree(9.0, part="shared")}, grad=True)
    down = Weights(tree(1.0, (1.0, 0.0), part="shared"))
    view = method.prepare(net, None, down, {}, turn_of(method))
    loss = method.own_loss(net, batch([0.0], [1]), view)
    assert loss.item() == pytest.approx(math.log(2) + 2)
    base, head = torch.autograd.grad(loss, [net.bound[BASE], net.bound[HEAD]])
    assert base.item() == pytest.approx(1.0)
    assert head.flatten().tolist() == pytest.approx([0.0, 1.0])


def test_the_shared_loss_reads_the_shared_model():
    """Shared base 1 and head (0, log 3), x = 1, class 1: −log(3/4) = 0.287682, whatever the own model."""
    method = Ditto()
    shared = tree(1.0, (0.0, math.log(3)), part="shared")
    loss = method.loss(net_of({**tree(5.0, (7.0, -7.0)), **shared}), batch([1.0], [1]), {})
    assert loss.item() == pytest.approx(0.287682, abs=1e-6)


def test_the_shared_model_is_that_of_fedavg():
    """Own models do not touch it: after three rounds its weights are FedAvg's, bit for bit."""
    one, two = Toy("ditto").build(), Toy("fedavg").build()
    one.play(None)
    two.play(None)
    shared = put("model.", under("shared.", one.federation.state.weights))
    assert_equal(shared, two.federation.state.weights)


def test_own_models_stay_and_are_not_sent():
    experiment = Toy("ditto").build(rounds=1)
    record = experiment.federation.play()
    kept = experiment.federation.engine.store.get(0).kept
    assert all(name.startswith("model.") for name in kept)
    assert record["up"]["params"] == 6 * experiment.task.parameter_count(0)


def test_own_models_start_from_the_shared_one():
    """The preset asks for a common start: v = w⁰ at every client."""
    config = resolve({"method": "ditto"})
    assert config.train.init == "common"
    experiment = Toy("ditto").build()
    task, state = experiment.task, experiment.federation.state
    tensors = assemble(task, Turn(task, 1, client=3), None, state)
    assert_equal(under("model.", tensors), under("shared.", tensors))


@pytest.mark.parametrize(("lam", "near"), [(0.0, False), (15.0, True)])
def test_a_strong_term_keeps_own_models_near(lam, near):
    """λη = 0.75 at λ = 15 and η = 0.05 without momentum: each step undoes most of the distance."""
    experiment = Toy("ditto", {"lam": lam}).build(rounds=1, momentum=0.0)
    before = under("shared.", experiment.federation.state.weights)
    experiment.play(None)
    own = under("model.", experiment.federation.engine.store.get(0).kept)
    distance = sum(float((own[n] - before[n]).square().sum()) for n in own) ** 0.5
    assert (distance < 0.1) is near


def test_predictions_of_both_models():
    """The own model's logits under `clf`, the shared one's under `global`."""
    method = Ditto()
    net = net_of({**tree(1.0, (1.0, 2.0)), **tree(1.0, (3.0, 4.0), part="shared")})
    scores = method.predict(net, batch([1.0], [0]).x, None, None, {})
    assert scores["clf"].tolist() == [[1.0, 2.0]]
    assert scores["global"].tolist() == [[3.0, 4.0]]
    assert tuple(scores) == method.modes


def test_a_negative_weight_is_refused():
    with pytest.raises(ConfigError, match="lam: must be at least 0"):
        resolve({"method": "ditto", "options": {"lam": -0.1}})
