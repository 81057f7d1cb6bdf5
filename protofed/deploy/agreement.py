"""What server and clients agree on before the first round, and the task that both make of it.

Each client says hello with a `Member`: its model, the shape of its inputs, its class names and sample
counts. The server joins the class names into one numbering, gives each client its id (its place in
server.toml) and sends the `Agreement` back, as JSON. Both sides build the same task from it.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from .. import experiment as experiments
from ..config import Config, resolve
from ..core.errors import ConfigError, MessageError, ProtofedError
from ..core.task import Group, Task
from ..models.base import Model
from ..models.groups import assign
from .own_files import by_name, check_member, fingerprints, found_at, load_common

LONGEST = 1_000_000  # characters of a hello
MOST_AXES, MOST_NUMBERS, MOST_DIM = 6, 10**8, 10**6  # of an input, and of an embedding
MOST_CLASSES, MOST_SAMPLES, MOST_FILES, MOST_TEXT = 10**5, 10**12, 100, 1000


@dataclass(frozen=True)
class Member:
    """One client as it describes itself."""

    name: str
    model: str
    shape: tuple[int, ...]
    dim: int
    classes: tuple[str, ...]
    train: int
    test: int
    dense: bool = False
    files: dict[str, str] = field(default_factory=dict)  # fingerprints of Python files that it may run


@dataclass(frozen=True)
class Agreement:
    """Everything that the task depends on."""

    experiment: str
    config: dict[str, Any]
    classes: tuple[str, ...]
    members: tuple[Member, ...]
    files: dict[str, str] = field(default_factory=dict)  # fingerprints of Python files that all need

    def config_at(self, home: Path | None = None, allowed: Collection[str] | None = None) -> Config:
        """The configuration on this machine. Files lie in `home`; a client runs only those that it allows."""
        if home is None:
            home, allowed = Path(), ()
        return resolve(found_at(self.config, self.files, home, allowed))

    def to_json(self) -> str:
        """As it is sent and stored."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Agreement:
        """Inverse of `to_json`; MessageError for anything else."""
        try:
            found = json.loads(text)
            members = tuple(read_member(member) for member in found["members"])
            files = {str(name): str(value) for name, value in found.get("files", {}).items()}
            return cls(found["experiment"], found["config"], tuple(found["classes"]), members, files)
        except (ValueError, TypeError, KeyError) as error:
            raise MessageError(f"the agreement is damaged ({error!r})") from error


def parse_member(text: str) -> Member:
    """What a client's hello says of it. It comes from another machine: its length is looked at first."""
    if len(text) > LONGEST:
        raise MessageError(f"hello: {len(text):,} characters; expected at most {LONGEST:,}")
    try:
        return read_member(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise MessageError(f"hello: damaged ({type(error).__name__})") from error


def read_member(values: Any) -> Member:
    """From JSON values; types and sizes are checked, because they come from another machine."""
    try:
        member = Member(
            name=str(values["name"]),
            model=str(values["model"]),
            shape=tuple(int(size) for size in values["shape"]),
            dim=int(values["dim"]),
            classes=tuple(str(name) for name in values["classes"]),
            train=int(values["train"]),
            test=int(values["test"]),
            dense=bool(values["dense"]),
            files={str(name): str(value) for name, value in values.get("files", {}).items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise MessageError(f"hello: damaged ({error!r})"[:300]) from error
    if min(member.train, member.test, member.dim) < 0 or not member.classes:
        raise MessageError(f"hello of {member.name}: {member.train} samples, {len(member.classes)} classes")
    _check_bounds(member)
    return member


def _check_bounds(member: Member) -> None:
    """Nothing that the server would have to build may be larger than anybody needs."""
    texts = [member.name, member.model, *member.classes, *member.files, *member.files.values()]
    bounds = {
        "axes of an input": (len(member.shape), MOST_AXES),
        "numbers in an input": (math.prod(member.shape), MOST_NUMBERS),
        "embedding size": (member.dim, MOST_DIM),
        "classes": (len(member.classes), MOST_CLASSES),
        "samples": (max(member.train, member.test), MOST_SAMPLES),
        "files": (len(member.files), MOST_FILES),
        "characters of a text": (max(map(len, texts)), MOST_TEXT),
    }
    for what, (value, most) in bounds.items():
        if not 0 <= value <= most:
            raise MessageError(f"hello: {what}: {value}; expected at most {most:,}"[:300])
    if any(size < 1 for size in member.shape):
        raise MessageError(f"hello: an input of shape {list(member.shape)}")


def agree(experiment: str, config: Config, members: Sequence[Member], wanted: Sequence[str]) -> Agreement:
    """One numbering of the classes: as server.toml lists them, else all names, sorted."""
    names = {name for member in members for name in member.classes}
    classes = tuple(wanted) or tuple(sorted(names, key=_natural))
    for member in members:
        foreign = [name for name in member.classes if name not in classes]
        if foreign:
            raise ConfigError(
                f"client {member.name} has the class {foreign[0]!r}, which is not in the server's list "
                f"({', '.join(classes)}); correct its `classes` in client.toml or the list in server.toml"
            )
    files = fingerprints(load_common(config.to_dict()))
    for member in members:
        check_member(member.name, member.files, files)
    models = "|".join(member.model for member in members)
    described = {**config.to_dict(), "clients": len(members), "models": models, "data": experiments.DEPLOYED}
    described |= {"partition": "of the clients' own"}
    return Agreement(experiment, {**by_name(described), "models": models}, classes, tuple(members), files)


def make_task(agreement: Agreement, config: Config, own: Collection[str] = ()) -> Task:
    """The same task at the server and at every client, from the agreement's configuration on this machine.
    `own` lists the models that may be read from files here; a file that others name is never run."""
    algorithm = config.make_method()
    if algorithm.needs.merged:
        raise ConfigError(f"{algorithm.name} merges all samples in one place: it cannot be deployed")
    shares = algorithm.needs.model or algorithm.needs.base or algorithm.needs.head
    kinds = list(dict.fromkeys((m.model, m.shape, m.dim) for m in agreement.members))
    index = np.array([kinds.index((m.model, m.shape, m.dim)) for m in agreement.members])
    groups = [
        Group(model, _builder(model, shape, dim, len(agreement.classes), shares, model in own))
        for model, shape, dim in kinds
    ]
    shapes = [shape for _, shape, _ in kinds]
    public = experiments.public_data(config, shapes[0])
    dense = any(member.dense for member in agreement.members)
    return experiments.make_task(config, algorithm, groups, index, shapes, agreement.classes, public, dense)


def _builder(
    model: str, shape: tuple[int, ...], dim: int, classes: int, shares: bool, own: bool
) -> Callable[[], nn.Module]:
    """Builds the model; where only its owner can (a module file of its own), a stand-in of the same
    embedding size, unless the method shares weights."""
    try:
        if model.startswith("module:") and not own:
            raise ConfigError("it is a file of its owner")
        builder = assign(model, 1, shape, classes).builders[0]
        builder()
    except ProtofedError as error:
        if shares:
            raise ConfigError(f"the method shares weights, but model {model} is not here: {error}") from error
        return lambda: _stand_in(shape, dim, classes)
    return builder


def _stand_in(shape: tuple[int, ...], dim: int, classes: int) -> nn.Module:
    base = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), dim))
    return Model(base, nn.Linear(dim, classes))


def _natural(name: str) -> tuple[int, int, str]:
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)
