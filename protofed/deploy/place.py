"""What one client is told of a run: its own place in it, and of the others what the method needs.

The server alone knows the whole agreement. A client needs the settings, the common list of classes, its
number and the number of its architecture (random numbers depend on both), and how many clients there are. It
is not told who the others are (but where uploads go into secure sums: there clients know each other by their
keys), which classes and how many samples they have. Their architectures it is told only where the method
builds models of them at every client (`Needs(peers=True)`), without whose they are.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from ..config import Config, resolve
from ..core.errors import ConfigError, MessageError
from ..core.outside import Fields, read_json
from ..core.task import Group, Task
from .agreement import (
    LONGEST_AGREEMENT,
    MOST_CLASSES,
    MOST_DEPTH,
    Agreement,
    Kind,
    Member,
    build_task,
    kind_of,
    kinds_of,
    read_files,
    read_kind,
    read_member,
)
from .own_files import found_at

MOST_CLIENTS, MOST_KINDS = 10**6, 10**4


@dataclass(frozen=True)
class Place:
    """One client's part of an agreement."""

    experiment: str
    config: dict[str, Any]
    classes: tuple[str, ...]
    member: Member  # the client itself
    client: int  # its number
    clients: int
    group: int  # number of its architecture
    others: bool  # whether anybody has another one
    kinds: tuple[Kind, ...] = ()  # all of them, in their order, where the method needs them
    files: dict[str, str] = field(default_factory=dict)
    peers: tuple[str, ...] = ()  # names of all clients by number, in a run with secure sums

    def config_at(self, home: Path, allowed: Collection[str]) -> Config:
        """The configuration on this machine: files lie in `home`, and only those allowed are run."""
        return resolve(found_at(self.config, self.files, home, allowed))

    @property
    def names(self) -> tuple[str, ...]:
        """Of all clients, as this one may call them."""
        named = [f"client {number}" for number in range(self.clients)]
        named[self.client] = self.member.name
        return tuple(named)

    def to_json(self) -> str:
        """As it is sent and stored."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Place:
        """Inverse of `to_json`; MessageError for anything else."""
        where = "the agreement"
        found = Fields(read_json(text, where, LONGEST_AGREEMENT, depth=MOST_DEPTH), where)
        config, kinds = found.any("config"), found.any("kinds")
        if not isinstance(config, dict) or not isinstance(kinds, list) or len(kinds) > MOST_KINDS:
            raise MessageError(f"{where} is damaged (config or kinds)")
        clients = found.whole("clients", 1, MOST_CLIENTS)
        return cls(
            found.text("experiment"),
            config,
            found.texts("classes", MOST_CLASSES),
            read_member(found.any("member")),
            found.whole("client", 0, clients - 1),
            clients,
            found.whole("group", 0, max(0, len(kinds) - 1) if kinds else clients - 1),
            found.flag("others"),
            tuple(map(read_kind, kinds)),
            read_files(found),
            found.texts("peers", clients) if "peers" in found else (),
        )


def place_of(agreement: Agreement, client: int, peers: bool) -> Place:
    """What this client is told; with `peers` also the architectures of all."""
    member, kinds = agreement.members[client], kinds_of(agreement.members)
    return Place(
        agreement.experiment,
        {**agreement.config, "models": member.model},
        agreement.classes,
        member,
        client,
        len(agreement.members),
        kinds.index(kind_of(member)),
        len(kinds) > 1,
        tuple(kinds) if peers else (),
        agreement.files,
        tuple(member.name for member in agreement.members) if agreement.secure else (),
    )


def make_place_task(place: Place, config: Config) -> Task:
    """The client's task. Where it is not told the architectures of others, building one is an error."""
    algorithm, own = config.make_method(), kind_of(place.member)
    if algorithm.needs.peers and not place.kinds:
        raise MessageError(f"the agreement lacks the architectures that {algorithm.name} needs")
    if place.kinds and place.kinds[place.group] != own:
        raise MessageError("the agreement is damaged (the architecture of this client)")
    kinds: Sequence[Kind] = place.kinds or [own]
    index = np.full(place.clients, place.group if place.kinds else 0)
    dense, named = place.member.dense, [place.member.model]
    task = build_task(config, algorithm, kinds, index, place.classes, dense, named)
    if place.kinds:
        return task
    groups = [_unknown(algorithm.name)] * max(place.group + 1, 1 + place.others)
    groups[place.group] = task.groups[0]
    shown = np.full(place.clients, place.group)
    return dataclasses.replace(
        task, groups=groups, group_index=shown, embed_dims=task.embed_dims * len(groups)
    )


def _unknown(method: str) -> Group:
    def build() -> nn.Module:
        raise ConfigError(
            f"{method} builds the model of another client, which clients are not told; declare in the method "
            "needs = Needs(peers=True), and they are"
        )

    return Group("another client's", build)
