"""Starting weights from files: what is loaded, what stays random, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from protofed.core.errors import ConfigError
from protofed.models import read_family
from protofed.models.weights import load_weights

SHAPE = (3, 32, 32)


def imagenet_like(skip: str = "") -> dict[str, Tensor]:
    """ResNet10 with all entries 0.5 and a classifier of 1000 classes."""
    state = read_family("resnet:10").build(SHAPE, 3).base.state_dict()
    full = {k: torch.full_like(v, 0.5) if v.is_floating_point() else v for k, v in state.items()}
    full |= {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}
    return {k: v for k, v in full.items() if k != skip}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    save_file(imagenet_like(), path)
    return path


def test_base_from_the_file_and_head_random(written: Path) -> None:
    model = read_family("resnet:10", {"pretrained": str(written)}).build(SHAPE, 3)
    assert all((p == 0.5).all() for p in model.base.parameters())
    assert model.head.weight.shape == (3, 512)
    assert model.head.weight.std() > 0


@pytest.mark.parametrize(
    "wrap", [lambda s: s, lambda s: {"state_dict": {f"module.{k}": v for k, v in s.items()}}]
)
def test_torch_files(tmp_path: Path, wrap: object) -> None:
    path = tmp_path / "weights.pth"
    torch.save(wrap(imagenet_like()), path)  # type: ignore[operator]
    model = read_family(f"resnet:10,pretrained={path}").build(SHAPE, 3)
    assert (model.base.conv1.weight == 0.5).all()


def test_fedproto_leaves_the_stem_random(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    state = read_family("resnet:18").build(SHAPE, 3).base.state_dict()
    save_file({k: torch.full_like(v, 0.5) for k, v in state.items()}, path)
    model = read_family(f"fp_resnet18:pretrained={path}").build(SHAPE, 10)
    assert (model.base.layer1[0].conv1.weight == 0.5).all()
    assert model.base.conv1.weight.std() > 0
    assert (model.base.bn1.weight == 1).all()


def refused(path: Path, spec: str = "resnet:10", shape: tuple[int, ...] = SHAPE) -> str:
    with pytest.raises(ConfigError) as caught:
        read_family(spec, {"pretrained": str(path)}).build(shape, 3)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "nowhere.pth")


@pytest.mark.parametrize("name", ["weights.pth", "weights.safetensors"])
def test_damaged_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"not weights at all")
    assert "cannot be read" in refused(tmp_path / name)


def test_pickled_objects_are_not_run(tmp_path: Path) -> None:
    torch.save({"model": nn.Linear(2, 2)}, tmp_path / "weights.pth")
    assert "cannot be read" in refused(tmp_path / "weights.pth")


def test_other_contents(tmp_path: Path) -> None:
    torch.save([torch.zeros(2)], tmp_path / "weights.pth")
    assert "expected a state dict of tensors, got a list" in refused(tmp_path / "weights.pth")


def test_another_architecture(written: Path) -> None:
    assert "lack layer1.1.conv1.weight" in refused(written, "resnet:18")
    assert "hold layer2.0.bn1.bias" in refused(written, "resnet:4")


def test_missing_tensor(tmp_path: Path) -> None:
    save_file(imagenet_like(skip="bn1.weight"), tmp_path / "weights.safetensors")
    assert "lack bn1.weight" in refused(tmp_path / "weights.safetensors")


def test_wrong_shape(written: Path) -> None:
    message = refused(written, shape=(1, 32, 32))
    assert "conv1.weight has shape [64, 3, 7, 7], the model needs [64, 1, 7, 7]" in message


def test_counters_may_be_absent(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    state = {k: v + 1 for k, v in net.state_dict().items() if not k.endswith("num_batches_tracked")}
    torch.save(state, tmp_path / "old.pth")
    load_weights(net, str(tmp_path / "old.pth"), "old")
    assert (net[1].weight == 2).all()
