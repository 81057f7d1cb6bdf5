"""bf16-mixed: layers of local steps in bfloat16, everything else in float32, on every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from protofed import testing
from protofed.config import System, resolve
from protofed.core.algorithm import methods
from protofed.core.errors import ConfigError
from protofed.core.mixed import MixedNet, check_mixed
from protofed.core.net import LiveNet
from protofed.core.train import Alone
from protofed.experiment import build, carry_out, reopen
from protofed.models.base import Model
from protofed.models.probe import check_mixed_convolutions
from protofed.runs.directory import RunDir
from protofed.studies.likeness import Training, different, training_by
from protofed.testing import Toy, assert_close, assert_equal, snapshot

CPU, HALF = torch.device("cpu"), torch.bfloat16
DIGITS = {"method": "fedproto", "clients": 8, "rounds": 3, "epochs": 2, "balanced": 0, "dtype": "bf16-mixed"}


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> None:
    """Toy samples in float32."""
    samples = testing._samples
    monkeypatch.setattr(testing, "_samples", lambda *args: tuple(_single(t) for t in samples(*args)))


def _single(value: Tensor) -> Tensor:
    return value.float() if value.is_floating_point() else value


class Played(NamedTuple):
    """The last record of a run, and all that it would save."""

    record: dict[str, Any]
    tensors: dict[str, Tensor]


def played(name: str, dtype: str = "bf16-mixed", models: str = "norm", **settings: Any) -> Played:
    experiment = Toy(name, models=models).build(rounds=2, epochs=1, dtype=dtype, **settings)
    try:
        return Played(experiment.play(None)[-1], snapshot(experiment))
    finally:
        experiment.federation.engine.close()


def linear_model() -> MixedNet:
    """One layer with weights 1 and 1 + 2⁻¹⁰, which bfloat16 (8 bits) cannot tell apart."""
    base = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        base.weight.copy_(torch.tensor([[1.0, 1 + 2**-10]]))
    modules = {"model": Model(base, nn.Identity())}
    return MixedNet(LiveNet(modules, modules), CPU, HALF, torch.float32)


def test_layers_round_and_results_are_float32() -> None:
    net = linear_model()
    x = torch.tensor([[1.0, -1.0]])
    for z in (net(x)[0], net.embed(x), net["model"].embed(x), net.at(net.tensors()).embed(x)):
        assert z.dtype == torch.float32
        assert z.item() == 0.0, "1 − (1 + 2⁻¹⁰) in bfloat16"
    assert net.net.embed(x).item() == pytest.approx(-(2**-10)), "in float32"
    assert net.head(torch.ones(1, 1)).dtype == torch.float32


def test_gradients_reach_the_float32_weights() -> None:
    net = linear_model()
    (grad,) = torch.autograd.grad(net.embed(torch.tensor([[2.0, 3.0]])).sum(), net.parameters().values())
    assert grad.dtype == torch.float32
    assert grad.tolist() == [[2.0, 3.0]]


@pytest.mark.usefixtures("single")
@pytest.mark.parametrize("name", list(methods))
def test_every_method_on_every_engine(name: str) -> None:
    """Messages and states are float32, losses close to those of full precision; engines agree."""
    full, mixed = played(name, "float32"), played(name)
    loss = mixed.record["train_loss"]
    assert loss == pytest.approx(full.record["train_loss"], rel=0.1, nan_ok=True)
    assert {n: t.dtype for n, t in mixed.tensors.items()} == {n: t.dtype for n, t in full.tensors.items()}
    assert mixed.record["up"]["bytes"] == 4 * mixed.record["up"]["params"]
    together = played(name, engine="cohort")
    assert together.record["train_loss"] == pytest.approx(loss, rel=1e-2, nan_ok=True)


@pytest.mark.usefixtures("single")
def test_processes_agree_to_the_bit_and_cohorts_within_bfloat16() -> None:
    reference = played("fedproto").tensors
    assert_equal(reference, played("fedproto").tensors)
    assert_equal(reference, played("fedproto", engine="workers", workers=2).tensors)
    for engine in ("cohort", "workers+cohort"):
        assert_close(reference, played("fedproto", engine=engine, workers=2).tensors, 2**-7)


@pytest.mark.usefixtures("single")
def test_it_does_compute_otherwise() -> None:
    one, two = played("local", "float32").tensors, played("local").tensors
    assert any(not torch.equal(one[name], two[name]) for name in one)


@pytest.mark.usefixtures("single")
def test_large_layers_are_updated_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update inside the backward pass would mix both kinds of floats."""
    monkeypatch.setattr("protofed.core.fused.LARGE", 1)
    seen: list[int] = []
    inner = Alone.close
    monkeypatch.setattr(Alone, "close", lambda self: (seen.append(len(self.fused.calls)), inner(self))[1])
    settings = {"momentum": 0.0}
    assert played("local", **settings).record["train_loss"] < 3
    assert set(seen) == {0}
    played("local", "float32", **settings)
    assert set(seen) == {0, 3}


@pytest.mark.usefixtures("single")
def test_noise_in_single_gradients_goes_together_with_it() -> None:
    dp = {"dp": "example:noise=1,clip=1,delta=0.001"}
    loss = played("fedavg", models="mlp", **dp).record["train_loss"]
    assert loss == pytest.approx(played("fedavg", "float32", "mlp", **dp).record["train_loss"], rel=0.05)


def test_digits_are_learned_and_a_resumed_run_keeps_it(tmp_path: Path) -> None:
    config = resolve(DIGITS)
    whole = build(config)
    records = carry_out(whole, RunDir.create(tmp_path / "whole", config.to_dict()))
    assert max(scores["mean"] for scores in records[-1]["acc"].values()) > 70

    def stop(record: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(build(config), RunDir.create(tmp_path / "part", config.to_dict()), stop)
    again = reopen(RunDir.open(tmp_path / "part"))
    assert (again.task.layers, again.federation.round) == (HALF, 1)
    again.play(None)
    assert_equal(snapshot(whole), snapshot(again))


def test_rows_of_a_table_that_differ_in_it_are_told() -> None:
    one, two = (
        Training(training_by(resolve({"dtype": kind}).to_dict())) for kind in ("float32", "bf16-mixed")
    )
    assert different(one, two) == ["dtype"]


def test_what_is_not_asked_for_is_not_there() -> None:
    assert System().torch_layers is None
    assert System(dtype="float64").torch_dtype == torch.float64
    assert System(dtype="bf16-mixed").torch_dtype == torch.float32


def test_a_device_without_it_is_refused() -> None:
    check_mixed(CPU)
    with pytest.raises(ConfigError, match="dtype bf16-mixed: device meta cannot compute so; use float32"):
        check_mixed(torch.device("meta"))


def model(layer: nn.Module, features: int) -> nn.Module:
    return Model(nn.Sequential(layer, nn.Flatten(), nn.LazyLinear(features)), nn.Linear(features, 2))


@pytest.mark.parametrize(
    ("layer", "size", "refused"),
    [
        (nn.Conv2d(1, 4, 3, padding=1), 1, True),  # the middle weight alone meets the one pixel
        (nn.Conv2d(1, 4, 3, padding=1), 2, False),
        (nn.Conv2d(1, 4, 3, padding=1, stride=2), 2, True),  # one place: −1, 0, 1
        (nn.Conv2d(1, 4, 3, padding=1, stride=2), 3, False),  # two places: −1, 0, 1 and 1, 2, 3
        (nn.Conv2d(1, 4, 7, padding=3), 3, True),  # the first weight meets −3, −2, −1
        (nn.Conv2d(1, 4, 7, padding=3), 4, False),
        (nn.Conv2d(1, 4, 3, padding="same", dilation=2), 2, True),
        (nn.Conv2d(1, 4, 3, padding="same", dilation=2), 3, False),
        (nn.Conv2d(1, 4, 3, padding="valid"), 3, False),
    ],
)
def test_weights_that_meet_padding_alone_are_refused(layer: nn.Module, size: int, refused: bool) -> None:
    module = model(layer, 3)
    if not refused:
        return check_mixed_convolutions(module, (1, size, size), "own")
    shown = f"model own has a kernel of {layer.kernel_size[0]}×.* on inputs of {size}×{size}"
    with pytest.raises(ConfigError, match=shown):
        check_mixed_convolutions(module, (1, size, size), "own")
    assert not module.base[0]._forward_pre_hooks


def test_a_model_too_deep_for_its_images_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"bf16-mixed: model resnet:10 .* inputs of 2×2"):
        build(resolve({**DIGITS, "models": "resnet:10"}))
