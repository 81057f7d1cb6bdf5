"""The papers' groups: members, order of assignment, options."""

from __future__ import annotations

import pytest
import torch

from protofed.models import assign, check_model, count_parameters, named_groups, read_family

_BIG = ["resnet:18", "resnet:34", "resnet:50", "resnet:101", "resnet:152"]


@pytest.mark.parametrize(
    ("name", "specs"),
    [
        ("htfe2", ["cnn4", "resnet:18"]),
        ("htfe3", ["resnet:10", "resnet:18", "resnet:34"]),
        ("htfe4", ["cnn4", "googlenet", "mobilenet_v2", "resnet:18"]),
        ("htfe8", ["cnn4", "googlenet", "mobilenet_v2", *_BIG]),
        ("htfe9", ["resnet:4", "resnet:6", "resnet:8", "resnet:10", *_BIG]),
        ("htcnn8", [f"htcnn:{i}" for i in range(1, 9)]),
        ("res34-htc4", ["resnet:34", *(f"resnet:34,head={h}" for h in (512, 256, 128))]),
        ("htc4", ["cnn4", *(f"cnn4:head={h}" for h in (512, 256, 128))]),
    ],
)
def test_members_take_turns(name: str, specs: list[str]) -> None:
    got = assign(name, 20, (3, 32, 32), 100)
    assert list(got.specs) == specs
    assert got.of.tolist() == [i % len(specs) for i in range(20)]


def test_htfe8_htc4_pairs_base_and_head() -> None:
    """Client i: base i mod 8, head i mod 4; so ResNet34 (4) has none and ResNet152 (7) has 128."""
    specs = assign("HtFE8-HtC4", 8, (3, 32, 32), 100).specs
    assert specs[1] == "googlenet:head=512"
    assert specs[4] == "resnet:34"
    assert specs[7] == "resnet:152,head=128"


def test_fedproto_cifar_halves() -> None:
    got = assign("fedproto-mh-cifar", 20, (3, 32, 32), 10)
    assert got.specs == ("fp_resnet18:conv_stride=1,pool_stride=4", "fp_resnet18")
    assert got.of.tolist() == [0] * 10 + [1] * 10


def test_feature_size_of_a_whole_group() -> None:
    got = assign("htcnn8:dim=64", 8, (1, 28, 28), 10)
    with torch.device("meta"):
        sizes = {check_model(build(), (1, 28, 28), 10, "htcnn") for build in got.builders}
    assert sizes == {64}


@pytest.mark.parametrize("name", sorted(named_groups))
def test_every_member_can_be_read(name: str) -> None:
    group = named_groups[name]
    assert group.help
    assert all(read_family(member).name for member in group.members)


def test_htfe9_grows() -> None:
    """FML and FedKD take the smallest model of a group as the auxiliary one: ResNet4 here."""
    with torch.device("meta"):
        sizes = [count_parameters(build()) for build in assign("htfe9", 9, (3, 32, 32), 100).builders]
    assert sizes == sorted(sizes)
