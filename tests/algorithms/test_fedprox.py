"""FedProx: the proximal term, its gradient, and what it does to a run."""

import math

import pytest
import torch
from tiny import BASE, HEAD, batch, net_of, tree, turn_of
from vmap_check import check_vmap

from protofed.algorithms.fedprox import FedProx
from protofed.config import resolve
from protofed.core.errors import ConfigError
from protofed.core.record import Weights
from protofed.testing import CHECKS, Toy, assert_close, snapshot

VARIANTS = [Toy("fedprox", {"mu": 1.0}), Toy("fedprox", {"params_only": True}, models="norm")]


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=lambda c: c.models)
def test_conformance_of_variants(case, check):
    check(case)


@pytest.mark.parametrize("models", ["mlp", "norm"])
def test_loss_runs_under_vmap(models):
    check_vmap(Toy("fedprox", {"mu": 1.0}, models=models))


def test_the_term_and_its_gradient_by_hand():
    """x = 0 makes all logits 0: the cross-entropy is log 2 and has no gradient. Base 3 received as 1, head
    (1, 2) received as (1, 0): ‖w − w^t‖² = 4 + 0 + 4 = 8. μ = 0.5: the term is 0.25 · 8 = 2, its gradient
    0.5 · (w − w^t): 1 for the base, (0, 1) for the head."""
    method = FedProx(mu=0.5)
    net = net_of(tree(3.0, (1.0, 2.0)), grad=True)
    view = method.prepare(net, None, Weights(tree(1.0, (1.0, 0.0))), {}, turn_of(method))
    loss = method.loss(net, batch([0.0], [1]), view)
    assert loss.item() == pytest.approx(math.log(2) + 2)
    base, head = torch.autograd.grad(loss, [net.bound[BASE], net.bound[HEAD]])
    assert base.flatten().tolist() == pytest.approx([1.0])
    assert head.flatten().tolist() == pytest.approx([0.0, 1.0])


def test_the_reference_does_not_follow_the_weights():
    """After a step the reference is still what was received: the term of unchanged weights is 0, and
    moving the live weights does not move the view."""
    method = FedProx(mu=1.0)
    received = tree(1.0)
    net = net_of(received, grad=True)
    view = method.prepare(net, None, Weights(received), {}, turn_of(method))
    with torch.no_grad():
        net.bound[BASE].add_(1.0)
    assert view["received"][BASE].item() == 1.0


def test_buffers_do_not_count():
    """BatchNorm statistics are not parameters: the reference holds none."""
    experiment = Toy("fedprox", models="norm").build()
    task, state = experiment.task, experiment.federation.state
    view = task.algorithm.prepare(task.live(0), None, state, {}, None)
    assert set(view["received"]) == set(task.names(0).parameters)
    assert set(state.weights) > set(view["received"])


def test_without_the_term_it_is_fedavg_that_tolerates_stragglers():
    one = Toy("fedprox", {"mu": 0.0}).build(stragglers=0.5)
    two = Toy("fedavg", {"tolerate": True}).build(stragglers=0.5)
    one.play(None)
    two.play(None)
    assert_close(snapshot(one), snapshot(two), 1e-12)


def test_a_strong_term_holds_the_weights():
    """The change over a round falls as μ grows."""
    moved = []
    for mu in (0.0, 1.0, 10.0):
        experiment = Toy("fedprox", {"mu": mu}).build(rounds=1, lr=0.01, momentum=0.0)
        before = experiment.federation.state.weights
        experiment.play(None)
        after = experiment.federation.state.weights
        moved.append(sum(float((after[n] - before[n]).square().sum()) for n in before))
    assert moved[0] > moved[1] > moved[2] > 0


@pytest.mark.parametrize(
    ("preset", "mu"),
    [("paper", 0.01), ("synthetic", 0.1), ("mnist", 1.0), ("femnist", 1.0), ("celeba", 0.01)],
)
def test_presets(preset, mu):
    assert resolve({"method": "fedprox", "preset": preset}).make_method().mu == mu


def test_a_negative_weight_is_refused():
    with pytest.raises(ConfigError, match="mu: must be at least 0, got -1"):
        resolve({"method": "fedprox", "options": {"mu": -1}})
