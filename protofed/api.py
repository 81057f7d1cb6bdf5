"""The Python interface: `run` a configured experiment, or `federate` your own models and data."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from . import experiment
from .config import Config, read_recipe, resolve
from .core.answer import ClientState
from .core.client import assemble, kept_names
from .core.data import LocalData
from .core.errors import ConfigError, DataError
from .core.record import Record
from .core.task import ClientTurn, Group
from .data.federated import OwnData
from .data.own import Samples, read_samples, without_samples
from .models.probe import try_forward
from .runs.about import AboutRun
from .runs.directory import RunDir
from .runs.kept_files import settings_with_kept
from .runs.outcome import Outcome


@dataclass
class Client:
    """A client that you bring: a module whose forward gives (embedding, logits), and its samples.

    `train` and `test` are (x, y) tensors, or anything that yields such pairs, like a DataLoader.
    """

    model: nn.Module
    train: Samples
    test: Samples | None = None


@dataclass
class Result:
    """What a run gave. `metrics` has one record a round."""

    metrics: list[dict[str, Any]]
    config: Config
    state: Record
    path: Path | None = None

    def accuracy(self, mode: str | None = None) -> float:
        """Mean test accuracy over clients in the last round, in percent, under a prediction mode.

        Without a mode: the one that the method's paper reports.
        """
        run = Outcome(self.metrics, about=AboutRun(self.config.make_method().modes))
        mode = mode or run.main
        if mode is None or not run.modes:
            raise ConfigError("no accuracy: no client has test samples")
        if mode not in run.modes:
            raise ConfigError(f"no accuracy named {mode!r}; this run has {', '.join(run.modes)}")
        return run.last(mode)


def run(
    method: str | Path | None = None,
    *,
    out: str | Path | None = None,
    force: bool = False,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Result:
    """Run a method (a name, or FILE.py:CLASS) on a data set, or a recipe (a .toml or .json path).

    Settings are those of `protofed run --help`: data, partition, models, clients, rounds, lr, …
    """
    layers: list[Mapping[str, Any]] = []
    if method is not None:
        path = Path(method)
        is_file = path.suffix in (".toml", ".json")
        layers.append(
            settings_with_kept(read_recipe(path), path.parent) if is_file else {"method": str(method)}
        )
    config = resolve(*layers, {**settings, "options": dict(options or {})})
    built = experiment.build(config)
    directory = RunDir.create(Path(out), built.config.to_dict(), force) if out else None
    records = experiment.carry_out(built, directory)
    return Result(records, built.config, built.federation.state, directory.path if directory else None)


def federate(
    clients: Sequence[Client],
    method: str = "fedproto",
    *,
    classes: int | Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Result:
    """Train your own modules on your own data. The modules hold their final weights afterwards."""
    _check_call(clients, settings)
    config = resolve(
        {"method": method}, {**settings, "options": dict(options or {}), "clients": len(clients)}
    )
    dtype, device = config.system.torch_dtype, config.system.torch_device
    train = [read_samples(c.train, f"client {i}: train", dtype, device) for i, c in enumerate(clients)]
    test = [
        read_samples(c.test, f"client {i}: test", dtype, device)
        if c.test is not None
        else without_samples(train[i])
        for i, c in enumerate(clients)
    ]
    groups, index = _groups([c.model for c in clients])
    shapes = _input_shapes(train, test, index, groups)
    names = _class_names(classes, [*train, *test], clients[0].model, shapes[0])
    algorithm = config.make_method()
    task = experiment.make_task(config, algorithm, groups, index, shapes, names, dense=train[0].y.ndim > 1)
    data = OwnData(train, test)
    config = experiment.settle_engine(config, task, data)
    federation = experiment.make_federation(config, task, data)
    engine = federation.engine
    for i, client in enumerate(clients):
        first = {f"model.{n}": t.detach().clone() for n, t in client.model.state_dict().items()}
        keep = set(kept_names(task, task.group_of(i)))
        engine.store.put(
            i,
            ClientState(
                {n: t.to(dtype) if t.is_floating_point() else t for n, t in first.items() if n in keep}
            ),
        )
    records = experiment.carry_out(experiment.Experiment(config, task, data, federation), None)
    for i, client in enumerate(clients):
        turn = ClientTurn(task, federation.round, "eval", client=i)
        tensors = assemble(task, turn, engine.store.get(i), algorithm.broadcast(federation.state, turn))
        own = {n[len("model.") :]: t for n, t in tensors.items() if n.startswith("model.")}
        client.model.load_state_dict(own)
    return Result(records, config, federation.state)


def _check_call(clients: Sequence[Client], settings: Mapping[str, Any]) -> None:
    if not clients:
        raise ConfigError("federate: no clients were given")
    for name in ("data", "partition", "models", "clients", "public"):
        if name in settings:
            raise ConfigError(
                f"federate: {name} does not apply: the clients bring models and data themselves"
            )
    owner: dict[int, int] = {}
    for i, client in enumerate(clients):
        if owner.setdefault(id(client.model), i) != i:
            first = owner[id(client.model)]
            raise ConfigError(
                f"federate: clients {first} and {i} have the same module; give each its own (copy.deepcopy)"
            )


def _groups(models: Sequence[nn.Module]) -> tuple[list[Group], np.ndarray]:
    """Modules of one class with tensors of equal names and shapes form a group."""
    seen: dict[tuple[Any, ...], int] = {}
    groups: list[Group] = []
    index = np.zeros(len(models), dtype=np.int64)
    for i, model in enumerate(models):
        shape = tuple((n, tuple(t.shape)) for n, t in model.state_dict().items())
        key = (type(model), str(model), shape)
        if key not in seen:
            seen[key] = len(groups)
            groups.append(Group(f"{type(model).__name__}#{len(groups)}", lambda m=model: copy.deepcopy(m)))  # type: ignore[misc]
        index[i] = seen[key]
    return groups, index


def _input_shapes(
    train: Sequence[LocalData], test: Sequence[LocalData], index: np.ndarray, groups: Sequence[Group]
) -> list[tuple[int, ...]]:
    """Shape of one input per group; clients with equal models must have equal inputs."""
    firsts = [int(np.argmax(index == g)) for g in range(len(groups))]
    shapes = [tuple(train[first].x.shape[1:]) for first in firsts]
    for i, group in enumerate(index):
        for part, data in (("train", train[i]), ("test", test[i])):
            got = tuple(data.x.shape[1:])
            if got != shapes[group]:
                raise DataError(
                    f"client {i}: {part}: inputs of shape {list(got)}, but client {firsts[group]}, which has "
                    f"the same model, trains on {list(shapes[group])}"
                )
    return shapes


def _class_names(
    classes: int | Sequence[str] | None, parts: Sequence[LocalData], model: nn.Module, shape: tuple[int, ...]
) -> tuple[str, ...]:
    """Names as given; else as many as the model has logits, or at least as many as there are labels."""
    highest = max(int(p.y.max()) for p in parts if len(p))
    if classes is None:
        classes = max(highest + 1, _logits(model, shape))
    names = tuple(str(c) for c in range(classes)) if isinstance(classes, int) else tuple(classes)
    if highest >= len(names):
        raise DataError(
            f"federate: label {highest} found, but there are {len(names)} classes (0 to {len(names) - 1})"
        )
    return names


def _logits(model: nn.Module, shape: tuple[int, ...]) -> int:
    out = try_forward(model, shape, type(model).__name__)
    pair = isinstance(out, tuple | list) and len(out) == 2 and isinstance(out[1], Tensor)
    return int(out[1].shape[1]) if pair and out[1].ndim > 1 else 0
