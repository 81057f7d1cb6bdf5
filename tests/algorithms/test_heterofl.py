"""HeteroFL: slices down, averages of overlapping slices, masked classes."""

import math

import numpy as np
import pytest
import torch
from fake_net import FakeNet, batch, floats, odds, says
from vmap_check import check_vmap

from protofed.algorithms.heterofl import HeteroFL, Slice, _last_layer
from protofed.config import resolve
from protofed.core.answer import Replies, Reply
from protofed.core.data import LocalData
from protofed.core.errors import ConfigError
from protofed.core.record import Weights
from protofed.core.task import Group, Task, Turn
from protofed.models import assign
from protofed.testing import CHECKS, Toy

PLAIN = {"mask": False, "weighting": "samples"}
VARIANTS = [Toy("heterofl", models="mixed"), Toy("heterofl", PLAIN, models="mixed")]


@pytest.mark.thorough
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("toy", VARIANTS, ids=["mixed", "plain"])
def test_conformance(toy, check):
    check(toy)


@pytest.mark.parametrize("mask", [True, False])
def test_loss_under_vmap(mask):
    check_vmap(Toy("heterofl", {"mask": mask}, models="mixed"))


def nested(*models, method=None, shape=(1, 8, 8)):
    """A task with one client per written model, and the first server state."""
    method = method or HeteroFL()
    builders = [assign(m, 1, shape, 3).builders[0] for m in models]
    groups = [Group(m, b) for m, b in zip(models, builders)]
    task = Task(method, groups, np.arange(len(models)), 3, (8,) * len(models), dtype=torch.float64)
    return task, method.init(task, Turn(task, 0))


# messages


def test_every_client_downloads_the_leading_part_of_the_widest_model():
    task, state = nested("small_cnn:width=4", "small_cnn:width=2", "small_cnn:width=3")
    wide = state.weights["model.base.conv.0.weight"]
    assert wide.shape == (4, 1, 3, 3)
    for client, width in enumerate((4, 2, 3)):
        down = HeteroFL().broadcast(state, Turn(task, 1, client=client))
        assert torch.equal(down.weights["model.base.conv.0.weight"], wide[:width])
        second = state.weights["model.base.conv.3.weight"]
        assert torch.equal(down.weights["model.base.conv.3.weight"], second[: 2 * width, :width])
        assert down.payload().floats == task.parameter_count(client)


def test_payload_is_each_clients_own_size():
    """Toy models of 6·16 + 16 + 16·8 + 8 + 8·5 + 5 = 293 and (with 10 hidden units) 203 parameters,
    three clients each."""
    (record,) = Toy("heterofl", models="mixed").build(rounds=1).play(None)
    assert record["up"]["params"] == record["down"]["params"] == 3 * (293 + 203)


# server


def replies(*ups):
    """(client, n, weights, classes) of each sender."""
    return Replies(iter([Reply(c, n, Slice(weights, torch.tensor(cls))) for c, n, weights, cls in ups]))


def filled(tree, value):
    return {n: torch.full_like(t, value) if t.is_floating_point() else t for n, t in tree.items()}


@pytest.mark.parametrize(("weighting", "overlap"), [("uniform", 3.0), ("samples", 4.0)])
def test_entries_are_averaged_over_the_clients_that_hold_them(weighting, overlap):
    """The wide client (n = 1) sends ones, the narrow one (n = 3) fives: the common entries become
    (1 + 5)/2 = 3, or (1 + 3·5)/4 = 4 by samples; the others come from the wide client."""
    method = HeteroFL(weighting=weighting)
    task, state = nested("mlp:hidden=4", "mlp:hidden=2", method=method)
    wide, narrow = (method.broadcast(state, Turn(task, 1, client=c)).weights for c in (0, 1))
    got = replies((0, 1, filled(wide, 1.0), [0, 1, 2]), (1, 3, filled(narrow, 5.0), [0, 1, 2]))
    new = method.aggregate(state, got, Turn(task, 1)).weights
    hidden = new["model.base.1.weight"]
    assert torch.equal(hidden[:2], torch.full_like(hidden[:2], overlap))
    assert torch.equal(hidden[2:], torch.ones_like(hidden[2:]))
    assert (new["model.head.bias"] == overlap).all()


def test_entries_outside_all_slices_stay():
    method = HeteroFL()
    task, state = nested("mlp:hidden=4", "mlp:hidden=2", method=method)
    narrow = method.broadcast(state, Turn(task, 1, client=1)).weights
    new = method.aggregate(state, replies((1, 1, filled(narrow, 7.0), [0, 1, 2])), Turn(task, 1)).weights
    old = state.weights["model.base.1.weight"]
    assert torch.equal(new["model.base.1.weight"][2:], old[2:])
    assert (new["model.base.1.weight"][:2] == 7).all()


@pytest.mark.parametrize(("mask", "rows"), [(True, [1.0, 5.0, None]), (False, [3.0, 3.0, 3.0])])
def test_rows_of_classes_that_a_client_lacks_do_not_count(mask, rows):
    """Client 0 has class 0, client 1 class 1, nobody class 2: rows 1, 5, and the old one."""
    method = HeteroFL(mask=mask)
    task, state = nested("mlp", "mlp:hidden=32", method=method)
    assert _last_layer(task) == ["model.head.weight", "model.head.bias"]
    one, two = (method.broadcast(state, Turn(task, 1, client=c)).weights for c in (0, 1))
    got = replies((0, 1, filled(one, 1.0), [0]), (1, 1, filled(two, 5.0), [1]))
    new = method.aggregate(state, got, Turn(task, 1)).weights
    for c, value in enumerate(rows):
        expected = state.weights["model.head.bias"][c] if value is None else value
        assert new["model.head.bias"][c] == expected


# client


def test_masked_loss_by_hand():
    """Logits (log 2, log 3, log 7), label 0, own classes 0 and 1: the third logit becomes 0, so CE =
    −log(2/(2 + 3 + 1)) = log 3, without gradient for that logit; unmasked −log(2/12) = log 6."""
    logits = odds((2, 3, 7))
    net = FakeNet(says(floats([[0.0]]), logits))
    view = {"own": torch.tensor([True, True, False])}
    loss = HeteroFL().loss(net, batch([0]), view)
    assert loss.item() == pytest.approx(math.log(3))
    (grad,) = torch.autograd.grad(loss, logits)
    assert grad[0].tolist() == pytest.approx([2 / 6 - 1, 3 / 6, 0])
    assert HeteroFL(mask=False).loss(net, batch([0]), view).item() == pytest.approx(math.log(6))


def test_predictions_among_all_and_among_own_classes():
    net = FakeNet(says(floats([[0.0]]), floats([[1, 2, 3]])))
    data = LocalData(floats([[0.0]]), torch.tensor([1]))
    scores = HeteroFL().predict(net, floats([[0.0]]), data, Weights({}), {})
    assert scores["clf"].argmax(1).tolist() == [2]
    assert scores["clf_local"].argmax(1).tolist() == [1]


def test_the_upload_names_the_clients_classes():
    task = Toy("heterofl").build().task
    data = LocalData(torch.zeros(3, 6), torch.tensor([3, 0, 3]))
    up, _ = HeteroFL().upload(task.live(0), data, None, {}, None, Turn(task, 1, client=0))
    assert up.cls.tolist() == [0, 3]


# settings


def test_equal_models_and_no_mask_are_plain_averaging():
    """One architecture: the same weights as FedAvg with uniform weights, from the same start."""
    ours = Toy("heterofl", {"mask": False}).build(rounds=2)
    theirs = Toy("fedavg", {"weighting": "uniform"}).build(rounds=2)
    for experiment in (ours, theirs):
        experiment.play(None)
    for name, tensor in theirs.federation.state.weights.items():
        assert torch.allclose(ours.federation.state.weights[name], tensor, atol=1e-12), name


@pytest.mark.parametrize(
    ("models", "problem"),
    [
        (("mlp", "small_cnn"), "only one of them has a tensor"),
        (("mlp:hidden=9,dim=4", "mlp:hidden=2,dim=5"), "does not fit into"),
    ],
)
def test_models_that_are_not_nested_are_refused(models, problem):
    with pytest.raises(ConfigError, match=f"heterofl: model .* is no slice of .*{problem}"):
        nested(*models)


def test_rounds_without_steps_leave_the_model():
    experiment = Toy("heterofl", settings={"epochs": 0}, models="mixed").build(rounds=1)
    before = experiment.federation.state.weights
    experiment.play(None)
    for name, tensor in experiment.federation.state.weights.items():
        assert torch.allclose(tensor, before[name], atol=1e-14), name


@pytest.mark.parametrize(("name", "value"), [("mask", "no?"), ("weighting", "size")])
def test_wrong_options(name, value):
    with pytest.raises(ConfigError, match=name):
        resolve({"method": "heterofl", "options": {name: value}})
