"""`net.parameters()`: the live parameters by name, on both kinds of net."""

import pytest
import torch
from torch import nn

from protofed.core.net import BoundNet, LiveNet, selects
from protofed.models.base import Model


def _modules():
    model = Model(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), nn.Linear(3, 2))
    return {"model": model, "proj": nn.Linear(3, 1, bias=False)}


def test_live_net_gives_the_parameters_of_all_modules_without_buffers():
    modules = _modules()
    found = LiveNet(modules, modules).parameters()
    assert list(found) == [
        "model.base.0.weight",
        "model.base.0.bias",
        "model.base.1.weight",
        "model.base.1.bias",
        "model.head.weight",
        "model.head.bias",
        "proj.weight",
    ]
    assert found["proj.weight"] is modules["proj"].weight


def test_prefixes_select():
    modules = _modules()
    assert list(LiveNet(modules, modules).parameters("model.head.", "proj.")) == [
        "model.head.weight",
        "model.head.bias",
        "proj.weight",
    ]


def test_gradients_flow_on_both_nets():
    """d/dw of ½‖w‖² is w."""
    modules = _modules()
    live = LiveNet(modules, modules)
    bound = {n: t.detach().clone().requires_grad_(t.is_floating_point()) for n, t in live.named().items()}
    for net in (live, BoundNet(modules, bound)):
        parameters = list(net.parameters().values())
        total = sum(0.5 * p.square().sum() for p in parameters)
        for parameter, grad in zip(parameters, torch.autograd.grad(total, parameters)):
            assert torch.equal(grad, parameter.detach())


@pytest.mark.parametrize(
    ("prefixes", "name", "selected"),
    [
        ((), "model.base.w", False),
        (("",), "model.base.w", True),
        (("model.head.",), "model.base.w", False),
        (("", "!model.head."), "model.base.w", True),
        (("", "!model.head."), "model.head.w", False),
        (("!model.head.", ""), "model.head.w", False),  # the order does not matter
        (("!model.head.",), "model.base.w", False),  # nothing to take away from
    ],
)
def test_prefixes_with_an_exclamation_mark_take_away(prefixes, name, selected):
    assert selects(prefixes, name) is selected
