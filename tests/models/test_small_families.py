"""FedProto's CNN, the small CNN and the perceptron: sizes and parameter counts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from protofed.core.errors import ConfigError
from protofed.core.rng import seeded
from protofed.models import check_model, count_parameters, read_family


def build(spec: str, shape: tuple[int, ...] = (1, 28, 28), classes: int = 10) -> nn.Module:
    return read_family(spec).build(shape, classes)


@pytest.mark.parametrize(("channels", "total"), [(18, 19_738), (20, 21_840), (22, 23_942)])
def test_fedproto_mnist_counts(channels: int, total: int) -> None:
    """Printed in ALGORITHMS §4; c=20 by hand: 260 + 5,020 + (320·50+50) + (50·10+10) = 21,840."""
    model = build(f"fp_cnn:channels={channels}")
    assert count_parameters(model) == total
    assert check_model(model, (1, 28, 28), 10, "fp_cnn") == 50


def test_fedper_can_share_the_convolutions_alone() -> None:
    model = build("fp_cnn")
    assert count_parameters(model, "base.conv.") == 5_280
    assert count_parameters(model, "base.fc.") == 16_050
    assert count_parameters(model, "head.") == 510
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"base", "head"}


def test_fedproto_femnist_counts() -> None:
    """841·20·50+50 = 841,050; convolutions 100 + 5,020; head 50·62+62 = 3,162; together 849,332."""
    model = build("fp_cnn:kernel=3", (1, 128, 128), 62)
    assert count_parameters(model) == 849_332
    assert count_parameters(model, "base.conv.") == 5_120
    assert check_model(build("fp_cnn:kernel=3"), (1, 28, 28), 10, "fp_cnn") == 50


def test_dropout_acts_in_training_only_and_can_be_off() -> None:
    x = torch.randn(4, 1, 28, 28)
    model = build("fp_cnn")
    assert not torch.equal(model(x)[1], model(x)[1])
    model.eval()
    assert torch.equal(model(x)[1], model(x)[1])
    plain = build("fp_cnn:dropout=0")
    assert torch.equal(plain(x)[1], plain(x)[1])


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32)])
def test_small_cnn_sizes(shape: tuple[int, int, int]) -> None:
    model = build("small_cnn:width=4,dim=7", shape, 3)
    assert check_model(model, shape, 3, "small_cnn") == 7
    area = (shape[1] // 4) * (shape[2] // 4)
    convs = (9 * shape[0] + 1) * 4 + (9 * 4 + 1) * 8
    assert count_parameters(model, "base.conv.") == convs
    assert count_parameters(model) == convs + (8 * area + 1) * 7 + (7 + 1) * 3


@pytest.mark.parametrize("shape", [(5,), (1, 8, 8)])
def test_mlp_takes_any_shape(shape: tuple[int, ...]) -> None:
    assert check_model(build("mlp", shape, 4), shape, 4, "mlp") == 32


@pytest.mark.parametrize(
    ("spec", "shape", "message"),
    [
        ("fp_cnn", (1, 8, 8), "model fp_cnn: images of 8x8 are too small"),
        ("fp_cnn", (20,), "model fp_cnn: expected images of shape"),
        ("small_cnn", (1, 3, 3), "at least 4x4, got 3x3"),
    ],
)
def test_unfit_inputs_are_refused_in_one_line(spec: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        build(spec, shape)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("spec", ["fp_cnn", "small_cnn", "mlp"])
def test_the_seed_decides_the_weights(spec: str) -> None:
    states = []
    for seed in (1, 1, 2):
        with seeded(seed):
            states.append(torch.cat([p.flatten() for p in build(spec).parameters()]))
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])
