"""Remarks on names of classes that clients most likely mean as one."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.near_names import near_pairs
from .agreement import Member


def near_names(members: Sequence[Member]) -> list[str]:
    """A remark for each pair of near-equal names. A site that has both means two classes."""
    return [
        f"classes {one!r} ({of_one}) and {two!r} ({of_two}) are counted as two: "
        "if they are one, give them one name in `classes` of client.toml"
        for one, of_one, two, of_two in near_pairs({member.name: member.classes for member in members})
    ]
