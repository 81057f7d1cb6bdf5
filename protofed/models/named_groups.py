"""Named groups of architectures, as the papers assign them to clients.

A group is a list of written forms and a rule: "mod" gives client i member i mod X, "blocks" gives
consecutive clients the same member.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NamedGroup:
    """Members in their order of assignment."""

    help: str
    members: tuple[str, ...]
    rule: str = "mod"


_WIDTHS = (18, 20, 22)

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
}
