"""FedProto on the digits: against plain loops written independently, and what it sends."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import protofed
from protofed.config import resolve
from protofed.experiment import build

EXAMPLE = Path(__file__).parents[2] / "examples" / "fedproto_by_hand.py"


def by_hand() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def settings(example: dict[str, Any], **changes: Any) -> dict[str, Any]:
    given = {"data": "digits", "partition": example["PARTITION"], "models": "mlp"}
    given |= {"clients": example["CLIENTS"], "seed": example["SEED"], "dtype": "float64"}
    return {**given, **changes}


@pytest.mark.parametrize("engine", ["sequential", "cohort"])
def test_two_rounds_equal_plain_loops(engine: str) -> None:
    """Prototypes, weights and accuracy of the example, which shares no code with the engines."""
    example = by_hand()
    prototypes, nets, accuracy = example["run"](2)
    ours = build(resolve(settings(example, rounds=2, engine=engine)))
    records = ours.play(None)
    state = ours.federation.state.arrays()
    assert sorted(prototypes) == torch.nonzero(state["known"])[:, 0].tolist()
    for c, mean in prototypes.items():
        assert torch.allclose(state["mean"][c], mean, rtol=0, atol=1e-10)
    for client, net in enumerate(nets):
        kept = ours.federation.engine.store.get(client)
        assert kept is not None
        for name, tensor in net.state_dict().items():
            assert torch.allclose(kept.kept[f"model.{name}"], tensor, rtol=0, atol=1e-10)
    assert records[-1]["acc"]["gp_local"]["mean"] == pytest.approx(accuracy)


def test_the_example_learns() -> None:
    run = by_hand()["run"]
    assert run(6)[2] > run(1)[2] + 5


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Random 28×28 images of ten classes."""
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (800, 28, 28), dtype=np.uint8)
    y = np.arange(800) % 10
    np.savez(tmp_path / "images.npz", x_train=x[:600], y_train=y[:600], x_test=x[600:], y_test=y[600:])
    return f"npz:{tmp_path / 'images.npz'}"


def test_clients_send_a_prototype_per_class(images: str) -> None:
    """20 clients × 4 classes × 50 numbers = 4,000 floats up, as the paper counts; class ids and counts
    (8 bytes each) are meta. Nothing comes down in the first round, all ten classes in the second."""
    split = "nway:n=4,stdev=0,k=3"
    result = protofed.run("fedproto", data=images, partition=split, models="fp_cnn", clients=20, rounds=2)
    for record in result.metrics:
        assert record["up"] == {"params": 4000, "bytes": 16000, "meta_bytes": 20 * 4 * 16}
    assert result.metrics[0]["down"]["params"] == 0
    assert result.metrics[1]["down"]["params"] == 20 * 10 * 50


def test_share_model_sends_the_weights_too() -> None:
    """mlp on 8×8 digits: 64·64+64 + 64·32+32 + 32·10+10 = 6,570 weights beside 2 × 3 × 32 prototypes."""
    result = protofed.run(
        "fedproto",
        partition="nway:n=3,stdev=0,k=5",
        models="mlp",
        clients=2,
        rounds=1,
        options={"share_model": True},
    )
    assert result.metrics[0]["up"]["params"] == 2 * (6570 + 3 * 32)
    assert result.metrics[0]["down"]["params"] == 2 * 6570


def test_different_architectures_share_prototypes() -> None:
    result = protofed.run("fedproto", models="mlp|small_cnn:dim=32", clients=4, rounds=2)
    assert result.metrics[-1]["up"]["params"] > 0
    assert result.accuracy("gp_local") > 30
