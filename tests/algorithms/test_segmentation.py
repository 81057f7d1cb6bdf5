"""Segmentation through whole rounds: a tiny net on tiny masks, and DeepLab on real ones if they are there."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import protofed
from protofed.algorithms.fedproto_margin import FedProtoMargin
from protofed.api import Client, Result, federate
from protofed.core.algorithm import methods
from protofed.core.data import LocalData
from protofed.core.errors import ConfigError
from protofed.core.rng import seeded
from protofed.core.task import Turn
from protofed.models.base import Model
from protofed.testing import assert_close

CLASSES = 3  # background and two kinds of object
DENSE = [name for name in methods if methods[name]().needs.dense and not methods[name]().needs.public]


def net() -> Model:
    """Embedding [B, 4, 4, 4], logits [B, 3, 8, 8]."""
    with seeded(0, "net"):
        base = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, 2, 1), nn.ReLU())
        return Model(base, nn.Sequential(nn.Conv2d(4, CLASSES, 1), nn.Upsample(scale_factor=2)))


def images(kinds: tuple[int, ...], n: int, seed: int) -> tuple[Tensor, Tensor]:
    """A 4×4 square on an 8×8 image, bright in the channel of its kind; its left border is void."""
    generator = torch.Generator().manual_seed(seed)
    x = 0.1 * torch.randn(n, 2, 8, 8, generator=generator, dtype=torch.float64)
    y = torch.zeros(n, 8, 8, dtype=torch.int64)
    for i in range(n):
        kind = kinds[i % len(kinds)]
        top, left = torch.randint(0, 5, (2,), generator=generator).tolist()
        x[i, kind - 1, top : top + 4, left : left + 4] += 2
        y[i, top : top + 4, left : left + 4] = kind
        y[i, top : top + 4, left] = -1
    return x, y


def clients() -> list[Client]:
    """Two clients with one kind of object each, one with both; one of them has a single image to test."""
    kinds = [(1,), (2,), (1, 2)]
    return [
        Client(net(), images(k, 12 + i, i), images(k, 1 if i == 0 else 6, 10 + i))
        for i, k in enumerate(kinds)
    ]


def play(method: str, rounds: int = 2, **more: Any) -> Result:
    settings = {"batch_size": 4, "lr": 0.1, "momentum": 0.5, "dtype": "float64", "epochs": 2, **more}
    return federate(clients(), method, classes=CLASSES, rounds=rounds, **settings)


@pytest.mark.parametrize("method", DENSE)
def test_methods_run_on_masks(method: str) -> None:
    result = play(method, momentum=0.0)  # some methods need plain SGD
    last = result.metrics[-1]
    assert 0 <= last["miou"]["clf"] <= 100
    assert math.isfinite(last["train_loss"])
    assert all(torch.isfinite(t).all() for t in result.state.arrays().values())


@pytest.mark.parametrize("method", ["fedavg", "fedproto_margin"])
def test_masks_are_learned(method: str) -> None:
    """A model that says background everywhere has an mIoU below a third of 100 %."""
    metrics = play(method, rounds=15).metrics
    assert metrics[-1]["miou"]["clf"] > 60
    assert metrics[-1]["test_loss"] < metrics[0]["test_loss"]


@pytest.mark.parametrize("method", ["fedavg", "fedproto", "fedproto_margin"])
def test_engines_agree_on_masks(method: str) -> None:
    one, two = (play(method, engine=engine) for engine in ("sequential", "cohort"))
    assert_close(one.state.arrays(), two.state.arrays(), 1e-9)
    assert one.metrics[-1]["miou"] == two.metrics[-1]["miou"]


def test_counts_are_positions_of_the_map() -> None:
    """12 + 13 + 14 images with 16 positions each, less the void ones."""
    state = play("fedproto_margin", rounds=1).state
    void = sum(int((c.train[1][:, ::2, ::2] < 0).sum()) for c in clients())  # type: ignore[call-overload, index]
    assert int(state.n.sum()) == 39 * 16 - void
    assert (state.n > 0).all()


def test_background_may_stay_out() -> None:
    """Then a client with one kind of object has one class only, and no margin: LPM 0, v = ½."""
    whole, bare = play("fedproto_margin"), play("fedproto_margin", options={"background": False})
    assert whole.state.n[0] > 0
    assert bare.state.n[0] == 0
    assert bare.state.mean[0].abs().sum() == 0
    assert not torch.allclose(whole.state.attention, bare.state.attention)
    method, task = FedProtoMargin(background=False), _Task()
    mean, n = method._prototypes(task, LocalData(*images((1,), 4, 0)), Turn(task, 1))  # type: ignore[arg-type]
    assert (n > 0).tolist() == [False, True, False]
    assert method._margin(mean, mean, n > 0).tolist() == [0, 0, 0]


class _Task:
    """Just enough of a net and a task for a pass over images."""

    C = CLASSES

    def embed(self, x: Tensor) -> Tensor:
        return torch.cat([x, -x], 1)[..., ::2, ::2]


def test_model_must_be_dense_too() -> None:
    flat = Model(nn.Sequential(nn.Flatten(), nn.Linear(128, 4)), nn.Linear(4, CLASSES))
    with pytest.raises(ConfigError, match="segmentation model"):
        federate([Client(flat, images((1,), 4, 0))], "fedavg", classes=CLASSES, rounds=1)


@pytest.mark.skipif("PROTOFED_DATA" not in os.environ, reason="PROTOFED_DATA does not name the data folder")
@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "fedproto_margin"])
def test_deeplab_on_pets(method: str) -> None:
    """One round of two small clients on real masks."""
    settings = {"optimizer": "adam", "lr": 1e-4, "weight_decay": 4e-5, "schedule": "poly", "batch_size": 8}
    result = protofed.run(
        method,
        data="pets:size=32,label=species_mask",
        models="deeplab",
        partition="voc:alpha=0.1",
        clients=40,
        sample=2,
        eval_clients=2,
        sampling="size",
        rounds=1,
        **settings,
    )
    assert 0 < result.metrics[-1]["miou"]["clf"] <= 100
    assert result.metrics[-1]["clients"] == 2
