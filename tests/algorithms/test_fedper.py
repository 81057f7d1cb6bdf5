"""FedPer: what is private, what is sent, what predicts; FedProto's count of it."""

import pytest
import torch
from tiny import BASE, HEAD, live, replies, tree, turn_of
from torch import nn
from vmap_check import check_vmap

import protofed
from protofed.algorithms.fedper import FedPer
from protofed.config import resolve
from protofed.core.client import assemble
from protofed.core.errors import ConfigError
from protofed.core.record import Weights
from protofed.core.task import Turn
from protofed.models.base import Model
from protofed.testing import CHECKS, CLASSES, EMBEDDING, INPUTS, Toy, assert_equal, toy_data

VARIANTS = [
    Toy("fedper", {"split": "base.2+head"}),
    Toy("fedper", {"params_only": True}, models="norm"),
    Toy("fedper", {"split": "base.0"}),
]


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("case", VARIANTS, ids=lambda c: str(c.options))
def test_conformance_of_variants(case, check):
    check(case)


@pytest.mark.parametrize("models", ["mlp", "norm"])
def test_loss_runs_under_vmap(models):
    check_vmap(Toy("fedper", models=models))


def test_only_the_base_is_sent():
    method = FedPer()
    turn = turn_of(method, client=1)
    up, mem = method.upload(live(turn, tree(2.0, (5.0, 6.0))), None, None, {}, None, turn)
    assert up.weights.keys() == {BASE}
    assert up.weights[BASE].item() == 2.0
    assert up.payload().floats == 1
    assert mem == {}
    assert method.init(turn.task, turn).weights.keys() == {BASE}


def test_bases_are_averaged_by_sample_counts():
    """Bases 1 (10 samples) and 5 (30 samples): (10 + 150) / 40 = 4."""
    method = FedPer()
    ups = [(0, 10, Weights({BASE: tree(1.0)[BASE]})), (1, 30, Weights({BASE: tree(5.0)[BASE]}))]
    assert method.aggregate(None, replies(*ups), turn_of(method)).weights[BASE].item() == 4.0


def test_a_client_is_tested_with_the_newest_base_and_its_own_head():
    experiment = Toy("fedper").build()
    experiment.play(None)
    task, federation = experiment.task, experiment.federation
    for client in range(task.clients):
        state = federation.engine.store.get(client)
        tensors = assemble(task, Turn(task, 3, "eval", client), state, federation.state)
        base = {n: t for n, t in tensors.items() if n.startswith("model.base.")}
        head = {n: t for n, t in tensors.items() if n.startswith("model.head.")}
        assert_equal(base, federation.state.weights)
        assert_equal(head, state.kept)


def test_a_client_that_never_took_part_has_its_initial_head():
    experiment = Toy("fedper").build(sample=1, rounds=1)
    experiment.play(None)
    task, federation = experiment.task, experiment.federation
    (trained,) = federation.engine.store
    silent = next(c for c in range(task.clients) if c != trained)
    tensors = assemble(task, Turn(task, 1, "eval", silent), None, federation.state)
    assert torch.equal(tensors["model.head.weight"], task.fresh(0, silent)["model.head.weight"])
    assert torch.equal(tensors["model.base.0.weight"], federation.state.weights["model.base.0.weight"])


def test_heads_may_differ():
    """Two architectures with equal bases and different heads train together."""

    def model(head: nn.Module) -> nn.Module:
        return Model(nn.Linear(INPUTS, EMBEDDING), head)

    heads = [nn.Linear(EMBEDDING, CLASSES), nn.Sequential(nn.Linear(EMBEDDING, 7), nn.Linear(7, CLASSES))]
    data = [toy_data("train", k) for k in (0, 1)]
    clients = [protofed.Client(model(head).double(), (part.x, part.y)) for head, part in zip(heads, data)]
    result = protofed.federate(clients, "fedper", classes=CLASSES, rounds=1, dtype="float64")
    one, two = (model.state_dict() for model in result.models)
    assert torch.equal(one["base.weight"], two["base.weight"])
    assert {"head.0.weight", "head.1.weight"} < two.keys()


def test_named_splits():
    assert FedPer().private == ("model.head.",)
    assert FedPer(split="fc").private == ("model.base.fc.", "model.head.")
    assert FedPer(split="base.fc,head").private == FedPer(split="fc").private
    assert FedPer(split="model.base.conv. + head").private == ("model.base.conv.", "model.head.")


def test_a_shared_head_must_be_alike():
    assert not FedPer().needs.head
    assert FedPer(split="base.0").needs.head


def test_a_part_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match=r"fedper: model mlp has no part 'base.fc'; its parts are base.0"):
        Toy("fedper", {"split": "fc"}).build()


def test_a_split_that_shares_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"all of model mlp would be private.*`split`"):
        Toy("fedper", {"split": "base+head"}).build()


def test_the_split_is_an_option():
    assert resolve({"method": "fedper", "options": {"split": "fc"}}).make_method().split == "fc"


def test_the_tiny_model_has_two_parts():
    """What the tests above rely on."""
    assert turn_of(FedPer()).task.names(0).parameters == (BASE, HEAD)
