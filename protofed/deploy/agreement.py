"""What server and clients agree on before the first round, and the task that both make of it.

Each client says hello with a `Member`: its model, the shape of its inputs, its class names and sample
counts. The server joins the class names into one numbering, gives each client its id (its place in
server.toml) and keeps all of it in the `Agreement`. Each client is sent its own part, as JSON: see place.py.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from .. import experiment as experiments
from ..config import Config, resolve
from ..core.algorithm import Algorithm
from ..core.errors import ConfigError, MessageError, ProtofedError
from ..core.outside import Fields, read_json
from ..core.task import Group, Task
from ..models.base import Model
from ..models.groups import assign
from ..runs.seals import read_content
from .own_files import by_name, check_member, fingerprints, found_at, load_common

FILE = "agreement.json"  # in the run directory
LONGEST, LONGEST_AGREEMENT = 1_000_000, 100_000_000  # characters of a hello, and of what answers them all
MOST_AXES, MOST_NUMBERS, MOST_DIM = 6, 10**8, 10**6  # of an input, and of an embedding
MOST_CLASSES, MOST_FILES, MOST_DEPTH = 10**5, 100, 16


Kind = tuple[str, tuple[int, ...], int]  # model, shape of its inputs, size of its embeddings


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

    @property
    def secure(self) -> bool:
        """Whether the run adds up uploads with secure sums."""
        return bool(self.config.get("trust", {}).get("secure", False))

    def config_at(self, home: Path | None = None) -> Config:
        """The configuration at the server. Files lie in `home`; without one, none is run."""
        allowed = () if home is None else None
        return resolve(found_at(self.config, self.files, home or Path(), allowed))

    def to_json(self) -> str:
        """As it is sent and stored."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Agreement:
        """Inverse of `to_json`; MessageError for anything else."""
        where = "the agreement"
        found = Fields(read_json(text, where, LONGEST_AGREEMENT, depth=MOST_DEPTH), where)
        members, config = found.any("members"), found.any("config")
        if not isinstance(members, list) or not isinstance(config, dict):
            raise MessageError(f"{where} is damaged (members or config)")
        classes, named = found.texts("classes", MOST_CLASSES), tuple(map(read_member, members))
        return cls(found.text("experiment"), config, classes, named, read_files(found))


def read_agreement(run: Path) -> Agreement:
    """That of a run directory."""
    return Agreement.of_json(read_content(run, FILE, older=True).decode(errors="replace"))


def parse_member(text: Any) -> Member:
    """What a client's hello says of it. It comes from another machine: its length is looked at first."""
    return read_member(read_json(text, "hello", LONGEST, depth=3))


def read_member(values: Any) -> Member:
    """From JSON values. Nothing that the server would have to build may be larger than anybody needs."""
    found = Fields(values, "hello")
    member = Member(
        name=found.text("name"),
        model=found.text("model"),
        shape=found.wholes("shape", MOST_AXES, 1, MOST_NUMBERS),
        dim=found.whole("dim", 0, MOST_DIM),
        classes=found.texts("classes", MOST_CLASSES),
        train=found.whole("train"),
        test=found.whole("test"),
        dense=found.flag("dense"),
        files=read_files(found),
    )
    if math.prod(member.shape) > MOST_NUMBERS:
        raise MessageError(
            f"hello: an input of shape {list(member.shape)}; expected at most {MOST_NUMBERS:,}"
        )
    if not member.classes or len(set(member.classes)) < len(member.classes):
        raise MessageError("hello: classes: expected at least one, and none twice")
    return member


def read_files(values: Fields) -> dict[str, str]:
    """Fingerprints of files by their names."""
    if "files" not in values:
        return {}
    files = values.named("files", MOST_FILES)
    return {name: files.text(name) for name in files.values}


def read_kind(values: Any) -> Kind:
    """A model, the shape of its inputs and the size of its embeddings, from JSON values."""
    if not isinstance(values, list) or len(values) != 3:
        raise MessageError("the agreement is damaged (an architecture)")
    found = Fields(dict(zip(("model", "shape", "dim"), values)), "the agreement: an architecture")
    shape = found.wholes("shape", MOST_AXES, 1, MOST_NUMBERS)
    return found.text("model"), shape, found.whole("dim", 0, MOST_DIM)


def kind_of(member: Member) -> Kind:
    """What makes clients one group: they can build each other's models."""
    return member.model, member.shape, member.dim


def kinds_of(members: Sequence[Member]) -> list[Kind]:
    """The different ones, in the order of the clients that have them first."""
    return list(dict.fromkeys(map(kind_of, members)))


def check_fits(member: Member, classes: Sequence[str], files: Mapping[str, str]) -> None:
    """Whether a client has no classes but these (none given: any), and the files that all need."""
    foreign = [name for name in member.classes if classes and name not in classes]
    if foreign:
        raise ConfigError(
            f"client {member.name} has the class {foreign[0]!r}, which is not in the server's list "
            f"({', '.join(classes)}); correct its `classes` in client.toml or the list in server.toml"
        )
    check_member(member.name, member.files, files)


def agree(experiment: str, config: Config, members: Sequence[Member], wanted: Sequence[str]) -> Agreement:
    """One numbering of the classes: as server.toml lists them, else all names, sorted."""
    names = {name for member in members for name in member.classes}
    classes = tuple(wanted) or tuple(sorted(names, key=_natural))
    files = fingerprints(load_common(config.to_dict()))
    for member in members:
        check_fits(member, classes, files)
    models = "|".join(member.model for member in members)
    described = {**config.to_dict(), "clients": len(members), "models": models, "data": experiments.DEPLOYED}
    described |= {"partition": "of the clients' own"}
    return Agreement(experiment, {**by_name(described), "models": models}, classes, tuple(members), files)


def make_task(agreement: Agreement, config: Config, own: Collection[str] = ()) -> Task:
    """The task of the whole federation, as the server has it, from the agreement's configuration on this
    machine. `own` lists the models that may be read from files here."""
    kinds = kinds_of(agreement.members)
    index = np.array([kinds.index(kind_of(member)) for member in agreement.members])
    dense = any(member.dense for member in agreement.members)
    return build_task(config, config.make_method(), kinds, index, agreement.classes, dense, own)


def build_task(
    config: Config,
    algorithm: Algorithm,
    kinds: Sequence[Kind],
    index: np.ndarray,
    classes: tuple[str, ...],
    dense: bool,
    own: Collection[str],
) -> Task:
    """A task of these architectures; `index` says which of them each client has. A model file that others
    name (not in `own`) is never run."""
    if algorithm.needs.merged:
        raise ConfigError(f"{algorithm.name} merges all samples in one place: it cannot be deployed")
    if config.validation:
        raise ConfigError(
            f"validation {config.validation}: clients of a deployment hold out no samples; leave it out, "
            "and tune in a simulation"
        )
    shares = algorithm.needs.model or algorithm.needs.base or algorithm.needs.head
    groups = [
        Group(model, _builder(model, shape, dim, len(classes), shares, model in own))
        for model, shape, dim in kinds
    ]
    shapes = [shape for _, shape, _ in kinds]
    public = experiments.public_data(config, shapes[0])
    return experiments.make_task(config, algorithm, groups, index, shapes, classes, public, dense)


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
