"""FedOpt: the server's optimisers."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import BASE, replies, tree, turn_of
from vmap_check import check_vmap

from protofed.algorithms.fedopt import FedOpt, Moments
from protofed.config import resolve
from protofed.core.errors import ConfigError
from protofed.core.record import Weights
from protofed.testing import CHECKS, Toy

VARIANTS = [
    Toy("fedopt", {"server": "yogi"}),
    Toy("fedopt", {"server": "adagrad", "beta1": 0.0, "eta": 0.1}),
    Toy("fedopt", {"params_only": True, "weighting": "uniform"}, models="norm"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=lambda c: "-".join(map(str, c.options.values())))
def test_conformance_of_variants(case, check):
    check(case)


def test_loss_runs_under_vmap():
    check_vmap(Toy("fedopt"))


def step(method, start, first, second, *values, n=(1, 1)):
    state = Moments(tree(start), tree(first), tree(second))
    ups = [(k, n[k], Weights(tree(value))) for k, value in enumerate(values)]
    after = method.aggregate(state, replies(*ups), turn_of(method))
    return [getattr(after, field)[BASE].item() for field in ("weights", "first", "second")]


def test_adam_by_hand():
    """w = 1, clients at 3: Δ = 2. m = 0.9 · 1 + 0.1 · 2 = 1.1; v = 0.99 · 0.25 + 0.01 · 4 = 0.2875;
    w = 1 + 0.1 · 1.1 / (√0.2875 + 0.001) = 1.204769."""
    weight, m, v = step(FedOpt(eta=0.1), 1.0, 1.0, 0.25, 3.0, 3.0)
    assert (m, v) == (pytest.approx(1.1), pytest.approx(0.2875))
    assert weight == pytest.approx(1.204769, abs=1e-6)


@pytest.mark.parametrize(("before", "after"), [(0.25, 0.29), (9.0, 8.96)])
def test_yogi_by_hand(before, after):
    """Δ = 2: v moves towards Δ² = 4 by 0.01 · 4 = 0.04, up from 0.25 and down from 9."""
    _, _, v = step(FedOpt(server="yogi"), 1.0, 0.0, before, 3.0, 3.0)
    assert v == pytest.approx(after)


def test_adagrad_by_hand():
    """β1 = 0: m = Δ = 2; v = 0.25 + 4 = 4.25; w = 1 + 0.1 · 2 / (√4.25 + 0.001) = 1.096967."""
    weight, m, v = step(FedOpt(server="adagrad", beta1=0.0, eta=0.1), 1.0, 5.0, 0.25, 3.0, 3.0)
    assert (m, v) == (2.0, 4.25)
    assert weight == pytest.approx(1.096967, abs=1e-6)


@pytest.mark.parametrize(("weighting", "delta"), [("samples", 3.5), ("uniform", 3.0)])
def test_weights_of_the_average(weighting, delta):
    """Changes 2 (1 sample) and 4 (3 samples): 3.5 by samples, else 3."""
    _, m, _ = step(FedOpt(weighting=weighting, beta1=0.0), 1.0, 0.0, 1.0, 3.0, 5.0, n=(1, 3))
    assert m == pytest.approx(delta)


def test_moments_start_at_zero_and_tau_squared():
    method = FedOpt(tau=0.01)
    turn = turn_of(method)
    state = method.init(turn.task, turn)
    assert state.first[BASE].item() == 0.0
    assert state.second[BASE].item() == pytest.approx(1e-4)


def test_no_change_no_step():
    """Δ = 0 and m = 0: the weights stay, without a division by zero."""
    weight, m, _ = step(FedOpt(), 1.0, 0.0, 0.0, 1.0, 1.0)
    assert (weight, m) == (1.0, 0.0)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["adam", "yogi", "adagrad"]), st.floats(-100, 100), st.floats(1e-6, 100))
def test_the_second_moment_stays_positive_and_the_step_bounded(server, delta, before):
    """v ≥ 0 for all three rules, so that its root exists."""
    weight, _, v = step(FedOpt(server=server), 0.0, 0.0, before, delta, delta)
    assert v >= 0
    assert math.isfinite(weight)


def test_only_weights_travel():
    """Moments stay at the server: the payload is FedAvg's."""
    one = Toy("fedopt").build().federation.play()
    two = Toy("fedavg").build().federation.play()
    assert [one[w]["params"] for w in ("up", "down")] == [two[w]["params"] for w in ("up", "down")]


def test_batch_norm_statistics_are_averaged_not_optimised():
    experiment = Toy("fedopt", models="norm").build(rounds=1)
    names = experiment.task.names(0)
    experiment.play(None)
    state = experiment.federation.state
    assert set(state.first) == set(names.parameters)
    assert torch.all(state.weights["model.base.1.running_var"] > 0)


@pytest.mark.parametrize(
    ("preset", "server", "beta1"),
    [
        ("paper", "adam", 0.9),
        ("fedadam", "adam", 0.9),
        ("fedyogi", "yogi", 0.9),
        ("fedadagrad", "adagrad", 0.0),
    ],
)
def test_presets(preset, server, beta1):
    method = resolve({"method": "fedopt", "preset": preset}).make_method()
    assert (method.server, method.beta1) == (server, beta1)


def test_an_unknown_optimiser_is_refused():
    with pytest.raises(ConfigError, match="known: adagrad, adam, yogi"):
        resolve({"method": "fedopt", "options": {"server": "lion"}})
