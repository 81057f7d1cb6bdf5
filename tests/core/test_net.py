"""Nets: live modules and bound tensors give the same numbers; copies are copies."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from protofed.core.errors import ConfigError
from protofed.core.net import BoundNet, LiveNet, selects
from protofed.models.base import Model


class Pair(nn.Module):
    """A model without halves."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.fc(x), 2 * self.fc(x)


def live(model: nn.Module | None = None) -> LiveNet:
    torch.manual_seed(0)
    made = model or Model(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), nn.Linear(3, 2))
    modules = {"model": made, "aux": nn.Linear(3, 1)}
    frozen = {part: copy.deepcopy(m).eval().requires_grad_(False) for part, m in modules.items()}
    return LiveNet(modules, frozen)


X = torch.linspace(-1, 1, 20).reshape(5, 4)


def other(net: LiveNet) -> dict[str, Tensor]:
    return {name: tensor + 1 for name, tensor in net.tensors().items()}


def test_install_copies_values_in() -> None:
    net = live()
    given = other(net)
    net.install(given)
    given["model.head.weight"].zero_()
    assert torch.equal(net.modules["model"].head.bias, given["model.head.bias"])  # type: ignore[arg-type]
    assert not torch.equal(net.tensors()["model.head.weight"], given["model.head.weight"])


def test_install_keeps_the_parameters_themselves() -> None:
    net = live()
    before = dict(net.modules["model"].named_parameters())
    net.install(other(net))
    assert all(p is before[name] for name, p in net.modules["model"].named_parameters())


def test_tensors_are_copies_without_gradient() -> None:
    net = live()
    kept = net.tensors()
    before = kept["model.head.weight"].clone()
    net.install(other(net))
    assert torch.equal(kept["model.head.weight"], before)
    assert not any(t.requires_grad for t in kept.values())


def test_tensors_are_contiguous() -> None:
    """Otherwise the last bit of a sum depends on whether a message went over a network."""
    net = live(Model(nn.Conv2d(2, 3, 2).to(memory_format=torch.channels_last), nn.Linear(3, 2)))
    assert all(t.is_contiguous() for t in net.tensors().values())


def test_prefixes_select_parameters_and_buffers() -> None:
    assert set(live().tensors("model.head.", "aux.")) == {
        "model.head.weight",
        "model.head.bias",
        "aux.weight",
        "aux.bias",
    }
    assert "model.base.1.running_mean" in live().tensors("model.base.")


@pytest.mark.parametrize("training", [False, True])
def test_bound_nets_equal_live_ones(training: bool) -> None:
    net = live()
    for module in net.modules.values():
        module.train(training)
    bound = BoundNet(net.modules, net.tensors())
    for one, two in zip(bound(X), net(X)):
        assert torch.equal(one, two)
    z = torch.ones(5, 3)
    assert torch.equal(bound.embed(X), net.embed(X))
    assert torch.equal(bound.head(z), net.head(z))
    assert torch.equal(bound["aux"](z), net["aux"](z))


def test_a_bound_net_in_train_mode_moves_its_own_statistics_alone() -> None:
    net = live()
    tensors = net.tensors()
    BoundNet(net.modules, tensors)(X)
    assert not torch.equal(tensors["model.base.1.running_mean"], torch.zeros(3))
    assert torch.equal(net.tensors()["model.base.1.running_mean"], torch.zeros(3))


def test_at_is_frozen_and_in_eval_mode() -> None:
    net = live()
    net.modules["model"].train()
    given = other(net)
    old = net.at(given)
    first, again = old(X)[0], old(X)[0]
    assert torch.equal(first, again)  # train mode would have moved the statistics
    assert not first.requires_grad
    net.install({name: torch.zeros_like(t) for name, t in given.items()})
    assert torch.equal(old(X)[0], first)


def test_at_reaches_other_modules() -> None:
    net = live()
    given = other(net)
    z = torch.ones(5, 3)
    assert torch.allclose(net.at(given)["aux"](z), net["aux"](z) + 4)
    assert torch.equal(net["aux"].at(given)(z), net.at(given)["aux"](z))


def test_a_model_without_halves_still_embeds() -> None:
    net = live(Pair())
    assert torch.equal(net.embed(X), net(X)[0])
    assert torch.equal(net.at(net.tensors()).embed(X), net(X)[0])


@pytest.mark.parametrize("bound", [False, True])
def test_a_missing_head_says_what_to_build(bound: bool) -> None:
    net = live(Pair())
    asked = net.at(net.tensors()) if bound else net
    with pytest.raises(ConfigError, match=r"model Pair has no `head`: build it as protofed\.Model"):
        asked.head(torch.ones(1, 3))


def test_selects() -> None:
    assert selects(("",), "anything")
    assert selects(("a.", "b."), "b.c")
    assert not selects(("a.",), "ab")
    assert not selects((), "a")
