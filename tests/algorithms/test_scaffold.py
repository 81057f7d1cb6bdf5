"""SCAFFOLD: corrected gradients, control variates, the server's step."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import BASE, HEAD, batch, live, net_of, ran, replies, tree, turn_of
from vmap_check import check_vmap

from protofed.algorithms.scaffold import Controlled, Scaffold
from protofed.config import resolve
from protofed.core.errors import ConfigError
from protofed.testing import CHECKS, Toy, assert_close

VARIANTS = [Toy("scaffold", {"eta_g": 0.7}), Toy("scaffold", {"params_only": True}, models="norm")]


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=lambda c: c.models)
def test_conformance_of_variants(case, check):
    check(case)


@pytest.mark.parametrize("models", ["mlp", "norm"])
def test_loss_runs_under_vmap(models):
    check_vmap(Toy("scaffold", models=models))


def own(base, head=(0.0, 0.0)):
    return {f"control/{n}": t for n, t in tree(base, head).items()}


def test_the_gradient_is_corrected_and_the_reported_loss_is_not():
    """x = 0: the cross-entropy is log 2 without gradient. c = (2; 1, 1), c_i = (0.5; 1, 0): the gradient is
    c − c_i = (1.5; 0, 1), whatever the weights; the value stays log 2."""
    method = Scaffold()
    net = net_of(tree(7.0, (3.0, -3.0)), grad=True)
    down = Controlled(tree(7.0, (3.0, -3.0)), tree(2.0, (1.0, 1.0)))
    view = method.prepare(net, None, down, own(0.5, (1.0, 0.0)), turn_of(method))
    loss = method.loss(net, batch([0.0], [0]), view)
    assert loss.item() == pytest.approx(math.log(2))
    base, head = torch.autograd.grad(loss, [net.bound[BASE], net.bound[HEAD]])
    assert base.item() == 1.5
    assert head.flatten().tolist() == [0.0, 1.0]


def test_the_new_control_variate_by_hand():
    """Option II: c_i = 0.2, c = 0.5, x = 1, y = 0.7 after K = 2 steps of η = 0.1:
    c_i⁺ = 0.2 − 0.5 + 0.3 / 0.2 = 1.2; the change sent is 1.0."""
    method = Scaffold()
    turn = turn_of(method, client=0)
    down = Controlled(tree(1.0), tree(0.5))
    up, mem = method.upload(live(turn, tree(0.7)), None, down, own(0.2), ran(tree(1.0), 2, 0.1), turn)
    assert mem["control/" + BASE].item() == pytest.approx(1.2)
    assert up.control[BASE].item() == pytest.approx(1.0)
    assert up.weights[BASE].item() == 0.7


def test_without_steps_nothing_changes():
    method = Scaffold()
    turn = turn_of(method, client=0)
    up, mem = method.upload(
        live(turn, tree(1.0)), None, Controlled(tree(1.0), tree(0.5)), {}, ran({}, 0), turn
    )
    assert up.control[BASE].item() == 0.0
    assert mem["control/" + BASE].item() == 0.0


def test_the_server_step_by_hand():
    """Four clients, two replies. x = 0, y = 2 and 4: mean 3, η_g = 0.5 gives 1.5, whatever the sample counts.
    Changes 1 and 3, c = 10: c + (1 + 3) / 4 = 11."""
    method = Scaffold(eta_g=0.5)
    ups = [(0, 1, Controlled(tree(2.0), tree(1.0))), (3, 99, Controlled(tree(4.0), tree(3.0)))]
    after = method.aggregate(Controlled(tree(0.0), tree(10.0)), replies(*ups), turn_of(method, clients=4))
    assert after.weights[BASE].item() == pytest.approx(1.5)
    assert after.control[BASE].item() == pytest.approx(11.0)


@settings(max_examples=25, deadline=None)
@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(-5, 5), st.integers(1, 50), st.floats(0.001, 1.0))
def test_plain_steps_give_back_the_mean_gradient(g, c, c_i, steps, lr):
    """K steps along g − c_i + c from x end at x − Kη(g − c_i + c); then c_i⁺ = g."""
    method = Scaffold()
    turn = turn_of(method, client=0)
    end = 1.0 - steps * lr * (g - c_i + c)
    down = Controlled(tree(1.0), tree(c))
    _, mem = method.upload(live(turn, tree(end)), None, down, own(c_i), ran(tree(1.0), steps, lr), turn)
    assert mem["control/" + BASE].item() == pytest.approx(g, abs=1e-6)


def test_the_first_round_equals_fedavg_with_equal_weights():
    """All control variates are 0."""
    one = Toy("scaffold").build(rounds=1)
    two = Toy("fedavg", {"weighting": "uniform"}).build(rounds=1, momentum=0.0)
    for experiment in (one, two):
        experiment.play(None)
    assert_close(one.federation.state.weights, two.federation.state.weights, 1e-12)


@pytest.mark.parametrize("sample", [None, 2])
def test_the_servers_variate_is_the_mean_of_the_clients(sample):
    """c = (1/N) Σ c_i holds after every round, also with partial participation."""
    experiment = Toy("scaffold").build(rounds=4, sample=sample)
    experiment.play(None)
    store, control = experiment.federation.engine.store, experiment.federation.state.control
    for name, c in control.items():
        clients = [store.get(client).mem["control/" + name] for client in store]
        assert torch.allclose(c, torch.stack(clients).sum(0) / 6, atol=1e-12)
    assert max(float(c.abs().max()) for c in control.values()) > 0


def test_it_sends_twice_as_much_as_fedavg():
    one = Toy("scaffold").build().federation.play()
    two = Toy("fedavg").build().federation.play()
    assert [one[way]["params"] for way in ("up", "down")] == [
        2 * two[way]["params"] for way in ("up", "down")
    ]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"momentum": 0.9}, r"scaffold needs plain SGD, got momentum=0.9; set .*momentum to 0"),
        ({"optimizer": "adam"}, r"scaffold needs plain SGD, got optimizer=adam"),
        ({"clip": 1.0}, r"scaffold needs plain SGD, got clip=1.0"),
    ],
)
def test_other_optimisers_are_refused(setting, message):
    with pytest.raises(ConfigError, match=message):
        Toy("scaffold", settings=setting).build()


def test_the_preset_turns_momentum_off():
    assert resolve({"method": "scaffold"}).train.momentum == 0.0
    assert resolve({"method": "fedavg"}).train.momentum == 0.5
