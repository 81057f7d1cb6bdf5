"""LG-FedAvg: only the head travels, bases may differ."""

import pytest
import torch
from tiny import HEAD, floats, live, replies, tree, turn_of
from vmap_check import check_vmap

from protofed.algorithms.lg_fedavg import LgFedAvg
from protofed.config import resolve
from protofed.core.client import assemble
from protofed.core.record import Weights
from protofed.core.task import Turn
from protofed.testing import CHECKS, Toy, assert_equal

VARIANTS = [Toy("lg_fedavg", models="mixed"), Toy("lg_fedavg", {"weighting": "uniform"})]


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=lambda c: c.models)
def test_conformance_of_variants(case, check):
    check(case)


@pytest.mark.parametrize("models", ["mlp", "norm", "mixed"])
def test_loss_runs_under_vmap(models):
    check_vmap(Toy("lg_fedavg", models=models))


def test_only_the_head_is_sent():
    method = LgFedAvg()
    turn = turn_of(method, client=1)
    up, _ = method.upload(live(turn, tree(2.0, (5.0, 6.0))), None, None, {}, None, turn)
    assert up.weights.keys() == {HEAD}
    assert up.weights[HEAD].flatten().tolist() == [5.0, 6.0]


@pytest.mark.parametrize(("weighting", "expected"), [("samples", 2.5), ("uniform", 2.0)])
def test_heads_are_averaged(weighting, expected):
    """Heads of ones (10 samples) and threes (30 samples): (10 + 90) / 40 = 2.5 by samples, else 2."""
    method = LgFedAvg(weighting=weighting)
    ups = [(0, 10, Weights({HEAD: floats([[1.0]] * 2)})), (1, 30, Weights({HEAD: floats([[3.0]] * 2)}))]
    after = method.aggregate(None, replies(*ups), turn_of(method))
    assert after.weights[HEAD].flatten().tolist() == [expected] * 2


def test_clients_start_from_one_head_and_their_own_base():
    experiment = Toy("lg_fedavg").build()
    task, state = experiment.task, experiment.federation.state
    one, two = (assemble(task, Turn(task, 1, client=c), None, state) for c in (0, 1))
    assert torch.equal(one["model.head.weight"], two["model.head.weight"])
    assert not torch.equal(one["model.base.0.weight"], two["model.base.0.weight"])


def test_a_client_is_tested_with_its_own_base_and_the_newest_head():
    experiment = Toy("lg_fedavg", models="mixed").build()
    experiment.play(None)
    task, federation = experiment.task, experiment.federation
    state = federation.engine.store.get(3)
    tensors = assemble(task, Turn(task, 3, "eval", 3), state, federation.state)
    assert_equal({n: t for n, t in tensors.items() if "head" in n}, federation.state.weights)
    assert_equal({n: t for n, t in tensors.items() if "base" in n}, state.kept)


def test_presets():
    assert resolve({"method": "lg_fedavg"}).make_method().weighting == "samples"
    official = resolve({"method": "lg_fedavg", "preset": "official"}).make_method()
    assert official.weighting == "uniform"
