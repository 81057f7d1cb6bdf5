"""Which client gets which architecture.

"fp_cnn:channels=20"                    one family for all clients
"small_cnn:width=8|small_cnn|mlp"       client i gets member i mod 3
"small_cnn|mlp@blocks"                  the first half the first member, the rest the second
"small_cnn|mlp@0,1,1"                   one member number per client
"htfe8", "htfe8:dim=256"                a named group, with options for all its members
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import nn

from ..core.errors import ConfigError, unknown
from ..core.options import parse_spec
from .base import Family, families
from .named_groups import named_groups
from .size import build_family
from .written import read_family, write_family

_RULE = re.compile(r"^(.*)@(mod|blocks|[\d\s,]+)$")


@dataclass(frozen=True)
class Assignment:
    """Groups of clients with the same architecture. Only groups that have clients are listed."""

    specs: tuple[str, ...]  # canonical written form of each group
    of: np.ndarray  # int [clients]: the group of each client
    builders: tuple[Callable[[], nn.Module], ...]  # a fresh module of each group

    def __len__(self) -> int:
        return len(self.specs)


def assign(models: str, clients: int, shape: tuple[int, ...], num_classes: int) -> Assignment:
    """Read the written form of a choice of models and give every client its group."""
    if clients < 1:
        raise ConfigError(f"models {models!r}: expected at least 1 client, got {clients}")
    members, rule = read_members(models)
    position = _positions(rule, len(members), clients, models)
    # Equal members are one group, so that engines may batch their clients.
    written = [write_family(member) for member in members]
    used = set(np.unique(position).tolist())
    specs = tuple(dict.fromkeys(text for number, text in enumerate(written) if number in used))
    group_of_member = np.array([specs.index(w) if w in specs else -1 for w in written])
    builders = tuple(partial(build_family, members[written.index(s)], s, shape, num_classes) for s in specs)
    return Assignment(specs, group_of_member[position], builders)


def read_members(models: str) -> tuple[list[Family], str]:
    """The families in their written order, and the rule: "mod", "blocks" or "0,1,1"."""
    match = _RULE.match(models.strip())
    body, rule = (match[1], match[2]) if match else (models.strip(), "")
    name = body.split(":", 1)[0].strip().lower()
    if name in named_groups and "|" not in body:
        group = named_groups[name]
        _, options = parse_spec(body)
        return [read_family(member, options) for member in group.members], rule or group.rule
    return [_member(part, models) for part in body.split("|")], rule or "mod"


def _member(part: str, models: str) -> Family:
    name = part.split(":", 1)[0].strip()
    if not name:
        raise ConfigError(f"models {models!r}: a model name is missing; write for example 'small_cnn|mlp'")
    if name.lower() in named_groups:
        raise ConfigError(f"models {models!r}: the named group {name!r} cannot be joined with others by '|'")
    if name not in families:
        raise ConfigError(unknown("model", name, [*families, *named_groups]))
    return read_family(part.strip())


def _positions(rule: str, members: int, clients: int, models: str) -> np.ndarray:
    """The member number of each client."""
    if rule == "mod":
        return np.arange(clients) % members
    if rule == "blocks":
        sizes = [len(block) for block in np.array_split(np.arange(clients), members)]
        return np.repeat(np.arange(members), sizes)
    listed = np.array([int(number) for number in rule.split(",") if number.strip()], dtype=np.int64)
    if len(listed) != clients:
        raise ConfigError(
            f"models {models!r}: the list after '@' names {len(listed)} clients, but there are {clients}"
        )
    if listed.max() >= members:
        raise ConfigError(
            f"models {models!r}: the list after '@' names model {listed.max()}, but they are numbered "
            f"0 to {members - 1}"
        )
    return listed
