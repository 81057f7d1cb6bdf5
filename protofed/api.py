"""The Python interface: `run` a configured experiment, or `federate` your own models and data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from . import experiment
from .config import Config, read_recipe, resolve
from .core.client import ClientState, assemble, kept_names
from .core.data import LocalData
from .core.errors import ConfigError, DataError
from .core.record import Record
from .core.task import Group, Turn
from .data.federated import OwnData
from .runs.directory import RunDir

Samples = tuple[Tensor, Tensor] | Iterable[tuple[Tensor, Tensor]]


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
        acc = self.metrics[-1]["acc"]
        mode = mode or next(m for m in self.config.make_method().modes if m in acc)
        if mode not in acc:
            raise ConfigError(f"no accuracy named {mode!r}; this run has {', '.join(acc)}")
        return float(acc[mode]["mean"])


def run(
    method: str | Path | None = None,
    *,
    out: str | Path | None = None,
    force: bool = False,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Result:
    """Run a method on a named data set, or a recipe (a .toml or .json path).

    Settings are those of `protofed run --help`: data, partition, models, clients, rounds, lr, …
    """
    layers: list[Mapping[str, Any]] = []
    if method is not None:
        path = Path(method)
        is_file = path.suffix in (".toml", ".json")
        layers.append(read_recipe(path) if is_file else {"method": str(method)})
    config = resolve(*layers, {**settings, "options": dict(options or {})})
    built = experiment.build(config)
    directory = RunDir.create(Path(out), built.config.to_dict(), force) if out else None
    records = built.play(directory)
    experiment.finish(built, directory)
    return Result(records, config, built.federation.state, directory.path if directory else None)


def federate(
    clients: Sequence[Client],
    method: str = "fedproto",
    *,
    classes: int | Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Result:
    """Train your own modules on your own data. The modules hold their final weights afterwards."""
    if not clients:
        raise ConfigError("federate: no clients were given")
    config = resolve(
        {"method": method}, {**settings, "options": dict(options or {}), "clients": len(clients)}
    )
    dtype = {"float32": torch.float32, "float64": torch.float64}[config.system.dtype]
    train = [_samples(c.train, f"client {i}: train", dtype) for i, c in enumerate(clients)]
    test = [
        _samples(c.test, f"client {i}: test", dtype) if c.test is not None else _nothing(train[i])
        for i, c in enumerate(clients)
    ]
    names = _class_names(classes, [*train, *test])
    groups, index = _groups([c.model for c in clients])
    shapes = [tuple(train[int(np.argmax(index == g))].x.shape[1:]) for g in range(len(groups))]
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
    built = experiment.Experiment(config, task, data, federation)
    records = built.play(None)
    experiment.finish(built, None)
    for i, client in enumerate(clients):
        turn = Turn(task, federation.round, "eval", i)
        tensors = assemble(task, turn, engine.store.get(i), algorithm.broadcast(federation.state, turn))
        own = {n[len("model.") :]: t for n, t in tensors.items() if n.startswith("model.")}
        client.model.load_state_dict(own)
    return Result(records, config, federation.state)


def _groups(models: Sequence[nn.Module]) -> tuple[list[Group], np.ndarray]:
    """Modules of one class with tensors of equal names and shapes form a group."""
    import copy

    seen: dict[tuple[Any, ...], int] = {}
    groups: list[Group] = []
    index = np.zeros(len(models), dtype=np.int64)
    for i, model in enumerate(models):
        shape = tuple((n, tuple(t.shape)) for n, t in model.state_dict().items())
        key = (type(model).__name__, str(model), shape)
        if key not in seen:
            seen[key] = len(groups)
            groups.append(Group(f"{type(model).__name__}#{len(groups)}", lambda m=model: copy.deepcopy(m)))  # type: ignore[misc]
        index[i] = seen[key]
    return groups, index


def _samples(given: Samples, who: str, dtype: torch.dtype) -> LocalData:
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Tensor):
        x, y = given
    else:
        pairs = list(given)
        if not pairs:
            raise DataError(f"{who}: no samples")
        x, y = torch.cat([p[0] for p in pairs]), torch.cat([p[1] for p in pairs])
    if len(x) != len(y):
        raise DataError(f"{who}: {len(x)} inputs but {len(y)} labels")
    if not len(x):
        raise DataError(f"{who}: no samples")
    if not torch.isfinite(x).all():
        raise DataError(f"{who}: the inputs hold NaN or infinite values")
    if y.is_floating_point() or int(y.min()) < (0 if y.ndim == 1 else -1):
        raise DataError(f"{who}: labels must be whole numbers from 0 on")
    return LocalData(x.to(dtype), y.to(torch.int64))


def _nothing(like: LocalData) -> LocalData:
    return LocalData(like.x[:0], like.y[:0])


def _class_names(classes: int | Sequence[str] | None, parts: Sequence[LocalData]) -> tuple[str, ...]:
    highest = max(int(p.y.max()) for p in parts if len(p))
    if classes is None:
        classes = highest + 1
    names = tuple(str(c) for c in range(classes)) if isinstance(classes, int) else tuple(classes)
    if highest >= len(names):
        raise DataError(
            f"federate: label {highest} found, but there are {len(names)} classes (0 to {len(names) - 1})"
        )
    return names
