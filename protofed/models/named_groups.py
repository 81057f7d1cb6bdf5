"""Named groups of architectures, as the papers assign them to clients.

A group is a list of written forms and a rule: "mod" gives client i member i mod X, "blocks" gives
consecutive clients the same member. FedTGP's names: HtFE are heterogeneous feature extractors, HtC
heterogeneous classifiers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NamedGroup:
    """Members in their order of assignment."""

    help: str
    members: tuple[str, ...]
    rule: str = "mod"


def _resnets(*depths: int) -> tuple[str, ...]:
    return tuple(f"resnet:{depth}" for depth in depths)


def _with_heads(*bases: str) -> tuple[str, ...]:
    """Base i with head i mod 4: none, 512, 256 or 128 hidden units."""
    heads = ("", "head=512", "head=256", "head=128")
    written = []
    for i, base in enumerate(bases):
        head = heads[i % 4]
        written.append(f"{base}{',' if ':' in base else ':'}{head}" if head else base)
    return tuple(written)


_WIDTHS = (18, 20, 22)
_HTFE8 = ("cnn4", "googlenet", "mobilenet_v2", *_resnets(18, 34, 50, 101, 152))

named_groups: dict[str, NamedGroup] = {
    # Blocks of 7, 7 and 6 clients out of 20.
    "fedproto-mh": NamedGroup(
        "FedProto's heterogeneous MNIST clients: second convolution 18, 20 or 22 wide",
        tuple(f"fp_cnn:channels={c}" for c in _WIDTHS),
        "blocks",
    ),
    "fedproto-mh-femnist": NamedGroup(
        "FedProto's heterogeneous FEMNIST clients: second convolution 18, 20 or 22 wide",
        tuple(f"fp_cnn:channels={c},kernel=3" for c in _WIDTHS),
        "blocks",
    ),
    "fedproto-mh-cifar": NamedGroup(
        "FedProto's heterogeneous CIFAR-10 clients: ResNet18, stem strides (1, 4) for the first half",
        ("fp_resnet18:conv_stride=1,pool_stride=4", "fp_resnet18"),
        "blocks",
    ),
    "htfe2": NamedGroup("FedTGP: 4-layer CNN, ResNet18", ("cnn4", "resnet:18")),
    "htfe3": NamedGroup("FedTGP: ResNet10, 18, 34", _resnets(10, 18, 34)),
    "htfe4": NamedGroup(
        "FedTGP: 4-layer CNN, GoogLeNet, MobileNetV2, ResNet18",
        ("cnn4", "googlenet", "mobilenet_v2", "resnet:18"),
    ),
    "htfe8": NamedGroup("FedTGP: 4-layer CNN, GoogLeNet, MobileNetV2, ResNet18 to 152", _HTFE8),
    "htfe9": NamedGroup("FedTGP: ResNet4 to 152", _resnets(4, 6, 8, 10, 18, 34, 50, 101, 152)),
    "htcnn8": NamedGroup("FedTGP: eight CNNs for 28×28 images", tuple(f"htcnn:{i}" for i in range(1, 9))),
    "htc4": NamedGroup("4-layer CNN with FedTGP's four heads", _with_heads(*["cnn4"] * 4)),
    "res34-htc4": NamedGroup("FedTGP: ResNet34 with four heads", _with_heads(*["resnet:34"] * 4)),
    "htfe8-htc4": NamedGroup("FedTGP: the bases of HtFE8 with four heads in turn", _with_heads(*_HTFE8)),
}
