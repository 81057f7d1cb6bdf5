"""Plain SGD inside the backward pass: the numbers of the usual way, and no use where they would differ."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from protofed.core import fused
from protofed.core.net import LiveNet
from protofed.core.optim import Opt
from protofed.testing import Toy, assert_close

PLAIN = Opt(lr=0.1, momentum=0.0)


def test_one_step_by_hand() -> None:
    """W = [[1, 2]], x = (3, 4), L = out: dL/dW = x, so W ← (1 − 0.1·3, 2 − 0.1·4); back flows the old W."""
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0]]))
        layer.bias.zero_()
    x = torch.tensor([[3.0, 4.0]], requires_grad=True)
    out = fused._run(layer, 0.1, x)
    back, bias, weight = torch.autograd.grad(out.sum(), [x, layer.bias, layer.weight], allow_unused=True)
    assert out.item() == 11
    assert back.tolist() == [[1.0, 2.0]]
    assert bias.tolist() == [1.0]
    assert weight is None
    assert layer.weight.tolist()[0] == pytest.approx([0.7, 1.6])


@pytest.mark.parametrize("method", ["local", "fedproto", "fedrep", "fedprox", "scaffold", "moon", "fml"])
@pytest.mark.parametrize("engine", ["sequential", "workers"])
def test_runs_are_equal_with_and_without(method: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def states() -> list[dict[str, torch.Tensor]]:
        experiment = Toy(method, settings={"momentum": 0.0}).build(engine=engine, rounds=2, workers=2)
        try:
            experiment.play(None)
            store = experiment.federation.engine.store
            kept = [store.get(client) for client in range(experiment.task.clients)]
            return [experiment.federation.state.arrays(), *(one.kept for one in kept if one is not None)]
        finally:
            experiment.federation.engine.close()

    usual = states()
    monkeypatch.setattr(fused, "LARGE", 1)
    for one, two in zip(usual, states(), strict=True):
        assert_close(one, two, 1e-10)


def _counted(monkeypatch: pytest.MonkeyPatch, method: str, **settings: Any) -> int:
    used = []
    monkeypatch.setattr(fused, "LARGE", 1)
    run = fused._run
    monkeypatch.setattr(fused, "_run", lambda *args: used.append(1) or run(*args))
    Toy(method, settings=settings).build(rounds=1).play(None)
    return len(used)


def test_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _counted(monkeypatch, "local", momentum=0.0) > 0


@pytest.mark.parametrize(
    "settings", [{"momentum": 0.5}, {"clip": 1.0}, {"weight_decay": 0.1}, {"optimizer": "adam"}]
)
def test_what_is_not_linear_in_the_gradient_goes_the_usual_way(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"momentum": 0.0, **settings}
    if "optimizer" in settings:
        given.pop("momentum")
    assert _counted(monkeypatch, "local", **given) == 0


def test_a_loss_that_reads_the_weights_goes_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _counted(monkeypatch, "fedprox", momentum=0.0) == 0
    net = Toy("ditto").build().task.live(0)
    net["shared"].parameters()
    assert net.asked == [True], "also when it asks another part of the net"


def test_a_layer_that_runs_twice_in_a_step_goes_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "LARGE", 1)
    layer = nn.Linear(2, 2)
    net = LiveNet({"model": layer}, {"model": layer})
    updates = fused.FusedUpdates(net, {"model.weight": PLAIN})
    net(net(torch.ones(1, 2)))
    updates.after_step()
    assert "forward" not in vars(layer)
    updates.remove()


def test_layers_are_as_they_were_after_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "LARGE", 1)
    experiment = Toy("local", settings={"momentum": 0.0}).build(rounds=1)
    experiment.play(None)
    for module in experiment.task.live(0).modules.values():
        assert not any("forward" in vars(layer) for layer in module.modules())
