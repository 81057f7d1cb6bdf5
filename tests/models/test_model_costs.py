"""Multiply-adds and parameter counts against hand calculations and FedTGP's Tables 8 and 12."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from torch import nn

from protofed.models import (
    assign,
    cost_of,
    describe_families,
    describe_groups,
    describe_model,
    multiply_adds,
    read_family,
)
from protofed.models.describe import build_for_counting
from protofed.models.flops import FEDTGP_TABLE_8
from protofed.models.residual import BasicBlock, Bottleneck, residual_trunk


def cifar_resnet(block: type[BasicBlock] | type[Bottleneck], counts: tuple[int, ...]) -> nn.Module:
    """3×3 stem of stride 1 without pooling, 100 classes."""
    with torch.device("meta"):
        trunk = residual_trunk(block, counts, nn.Conv2d(3, 64, 3, 1, 1, bias=False), None)
        return nn.Sequential(*trunk.values(), nn.Linear(512 * block.expansion, 100))


def test_four_layer_cnn_by_hand() -> None:
    """28²·32·75 + 10²·64·800 + 1600·512 + 512·100 = 7,872,000."""
    with torch.device("meta"):
        model = read_family("cnn4").build((3, 32, 32), 100)
    cost = cost_of(model, (3, 32, 32), 100)
    assert cost.multiply_adds == 7_872_000
    assert (cost.embedding, cost.parameters, cost.base, cost.head) == (512, 924_708, 873_408, 51_300)


def test_normalisation_counts_two_per_output() -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))
    assert multiply_adds(net, (1, 6, 6)) == 16 * 4 * 9
    assert multiply_adds(net, (1, 6, 6), norms=True) == 16 * 4 * 9 + 2 * 64
    assert net.training


def test_published_resnet50_is_a_cifar_stem() -> None:
    """Table 8 prints 1.305; ResNet101's 2.532 is met within half a percent only (2.520)."""
    fifty = multiply_adds(cifar_resnet(Bottleneck, (3, 4, 6, 3)), (3, 32, 32), norms=True)
    assert round(fifty / 1e9, 3) == FEDTGP_TABLE_8["resnet:50"]
    hundred = multiply_adds(cifar_resnet(Bottleneck, (3, 4, 23, 3)), (3, 32, 32), norms=True)
    assert hundred / 1e9 == pytest.approx(FEDTGP_TABLE_8["resnet:101"], rel=0.005)


@pytest.mark.skipif(find_spec("torchvision") is None, reason="needs protofed[vision]")
def test_published_mobilenet_is_at_imagenet_size() -> None:
    with torch.device("meta"):
        model = read_family("mobilenet_v2:dim=1280").build((3, 224, 224), 1000)
    assert round(multiply_adds(model, (3, 224, 224), norms=True) / 1e9, 3) == FEDTGP_TABLE_8["mobilenet_v2"]


def test_imagenet_stems_at_cifar_size_are_far_cheaper() -> None:
    """What FedTGP trains: the stem leaves 8×8 positions. So its Table 8 is no cost of these networks."""
    with torch.device("meta"):
        small = multiply_adds(read_family("resnet:50").build((3, 32, 32), 100), (3, 32, 32))
    assert round(small / 1e9, 4) == 0.0835


def test_table_12_is_four_forward_passes_of_table_8() -> None:
    """Σ over 20 clients of HtFE8 = 24.692; ×4 = 98.77 as printed, though the text says ×3."""
    group = assign("htfe8", 20, (3, 32, 32), 100)
    total = sum(FEDTGP_TABLE_8[group.specs[g]] for g in group.of)
    assert total == pytest.approx(24.692)
    assert round(4 * total, 2) == 98.77


def test_rows_without_building() -> None:
    rows = describe_families()
    assert {row.family for row in rows} >= {"fp_cnn", "small_cnn", "mlp", "resnet", "timm", "module"}
    assert all(row.summary and row.cost is None and not row.note for row in rows)
    assert [r.spec for r in rows if r.family == "htcnn"] == [f"htcnn:{i}" for i in range(1, 9)]


def test_row_with_costs() -> None:
    """24²·10·25 + 8²·20·250 + 320·50 + 50·10 = 480,500."""
    cost = describe_model("fp_cnn", (1, 28, 28), 10).cost
    assert cost is not None
    assert (cost.parameters, cost.multiply_adds) == (21_840, 480_500)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [("module", "expected module:FILE.py:CLASS"), ("fp_cnn", "images of 8x8 are too small")],
)
def test_row_with_a_reason(spec: str, reason: str) -> None:
    row = describe_model(spec, (1, 8, 8), 10)
    assert row.cost is None
    assert reason in row.note


@pytest.mark.skipif(find_spec("timm") is None, reason="needs protofed[vision]")
@pytest.mark.parametrize("spec", ["deeplab", "timm:resnet18", "googlenet"])
def test_rows_of_foreign_architectures(spec: str) -> None:
    row = describe_model(spec, (1, 28, 28), 10)
    assert not row.note
    assert row.cost is not None


def test_counting_falls_back_to_a_real_module() -> None:
    def reads_values() -> nn.Module:
        layer = nn.Linear(2, 2)
        assert isinstance(layer.weight.sum().item(), float)
        return layer

    assert build_for_counting(reads_values).weight.device.type == "cpu"
    assert build_for_counting(lambda: nn.Linear(2, 2)).weight.is_meta


def test_groups_are_listed() -> None:
    names = [name for name, _ in describe_groups()]
    assert "htfe8" in names
    assert names == sorted(names)
