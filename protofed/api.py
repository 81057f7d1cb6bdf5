"""The Python interface: `run` a configured experiment, or `federate` your own models and data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from . import experiment
from .config import Config, resolve
from .core.answer import ClientState
from .core.client import assemble, kept_names
from .core.data import LocalData, without_samples
from .core.errors import ConfigError, DataError, ProtofedError
from .core.needs import check_batches, check_epochs
from .core.task import ClientTurn
from .core.user_files import caller_line, reason
from .data.features import odd_features
from .data.federated import OwnData
from .data.holdout import balanced_samples, hold_out_samples
from .data.own import Samples, read_samples
from .experiment import AS_GIVEN, GIVEN
from .federating import make_federation, settle_engine
from .models.given_modules import check_modules, class_names, copy_module, group_modules, input_shapes, two_of
from .result import Result, Results
from .resuming import reopen_given
from .runs.bars import RoundBar
from .runs.directory import RunDir
from .runs.kept_files import recipe_of_run

log = logging.getLogger("protofed")


@dataclass
class Client:
    """A client that you bring: a module whose forward gives (embedding, logits), and its samples.

    `train` and `test` are (x, y) tensors, a Dataset (or Subset) of samples, or anything that yields batches
    of them, like a DataLoader. They are read once, before training: what a loader shuffles, augments or drops
    it does this one time, and protofed draws batches of its own (settings batch_size and drop_last).
    """

    model: nn.Module
    train: Samples
    test: Samples | None = None


def run(
    method: str | Path | None = None,
    *,
    out: str | Path | None = None,
    force: bool = False,
    progress: bool = False,
    seeds: int | Sequence[int] | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Any:
    """Run a method (a name, or FILE.py:CLASS) on a data set, or a recipe (a .toml or .json path).

    Settings are those of `protofed run --help`: data, partition, models, clients, rounds, lr, … The result is
    a `Result`; with `seeds` (a number, or a list of them) `Results`, with a folder seed-N for each in `out`.
    """
    layers: list[Mapping[str, Any]] = []
    if method is not None:
        path = Path(method)
        is_file = path.suffix in (".toml", ".json")
        layers.append(recipe_of_run(path) if is_file else {"method": str(method)})

    def one(seed: Mapping[str, int], place: Path | None) -> Result:
        built = experiment.build(resolve(*layers, {**settings, **seed, "options": options or {}}))
        directory = RunDir.create(place, built.config.to_dict(), force) if place else None
        return _result(built, directory, _carry_out(built, directory, progress))

    return _each_seed(one, seeds, out, settings)


def federate(
    clients: Sequence[Client],
    method: str = "fedproto",
    *,
    classes: int | Sequence[str] | None = None,
    inplace: bool = False,
    out: str | Path | None = None,
    force: bool = False,
    resume: bool = False,
    progress: bool = False,
    seeds: int | Sequence[int] | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Any:
    """Train modules of your own, from the weights that they have, on your own data.

    Your modules stay as they are: the trained ones are copies, in `result.models`. With `inplace=True` the
    weights are written into your modules too, and these are `result.models`. `out`: a run directory, which
    the commands read; with `resume=True` and the same clients one that was interrupted goes on, or a finished
    one for more rounds. `seeds` (a number, or a list): one run each, in folders seed-N of `out`.
    """
    clients = _check_call(clients, settings)
    if resume and out is None:
        raise ConfigError("federate: resume: say which run, with out=RUN")
    if inplace and seeds is not None:
        raise ConfigError("federate: inplace: one module cannot take the weights of several seeds")

    def one(seed: Mapping[str, int], place: Path | None) -> Result:
        chosen = {**settings, **seed, "options": options or {}, "clients": len(clients)}
        built, models = _build(clients, resolve({"method": method}, chosen), classes, inplace)
        directory: RunDir | None = None
        if resume and place is not None:
            directory = reopen_given(built, place)
        else:
            _hand_out(built, models)
            directory = RunDir.create(place, built.config.to_dict(), force) if place else None
        result = _result(built, directory, _carry_out(built, directory, progress))
        _collect(built, models)
        return replace(result, models=models)

    return _each_seed(one, seeds, out, settings)


def _each_seed(
    one: Callable[[Mapping[str, int], Path | None], Result],
    seeds: int | Sequence[int] | None,
    out: str | Path | None,
    settings: Mapping[str, Any],
) -> Result | Results:
    """One run, or one for each seed."""
    place = Path(out).absolute() if out is not None else None  # a later change of the folder changes nothing
    if seeds is None:
        return one({}, place)
    first = int(settings.get("seed", 0))
    chosen = list(range(first, first + seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if not chosen or len(set(chosen)) < len(chosen):
        raise ConfigError(f"seeds: expected a number from 1 on, or different seeds, got {seeds!r}")
    return Results([one({"seed": seed}, place / f"seed-{seed}" if place else None) for seed in chosen])


def _result(built: experiment.Experiment, directory: RunDir | None, records: list[dict[str, Any]]) -> Result:
    """What there is now: of a resumed run with the rounds before."""
    last = built.last_test
    if directory is not None:
        records = directory.lines("metrics.jsonl")
        last = next(reversed(directory.lines("clients.jsonl")), last)
    path = directory.path if directory else None
    state, why = built.federation.state, built.engine_reason
    return Result(records, built.config, state, path, engine_reason=why, per_client=last)


def _build(
    clients: Sequence[Client], config: Config, classes: int | Sequence[str] | None, inplace: bool
) -> tuple[experiment.Experiment, list[nn.Module]]:
    """The experiment of clients that were given, and the modules that will have the weights."""
    algorithm = config.make_method()
    if algorithm.needs.public:
        raise ConfigError(
            f"federate: {algorithm.name} needs public samples, which cannot be given here; use "
            "protofed.run with `public`"
        )
    check_epochs(algorithm, config.train.epochs)
    train, test = _samples(clients, config)
    given = [c.model for c in clients]
    check_modules(given)
    models = given if inplace else [copy_module(model, i) for i, model in enumerate(given)]
    groups, index = group_modules(models, [two_of(data.x) for data in train])
    shapes = input_shapes(train, test, index, groups)
    names = class_names(classes, train, test, models[0])
    firsts = [two_of(train[int(np.argmax(index == g))].x) for g in range(len(groups))]
    dense = train[0].y.ndim > 1
    held: Sequence[LocalData] = ()
    if config.validation:
        train, held = hold_out_samples(train, config.validation, config.seed)
    balanced = balanced_samples(test, config.system.balanced, config.seed)
    task = experiment.make_task(
        config, algorithm, groups, index, shapes, names, dense=dense, inputs=firsts, balanced=balanced
    )
    data = OwnData(train, test, held)
    odd = odd_features([part.x for part in train], "federate")
    for warning in [*odd, *check_batches(task, data), *algorithm.idle(task)]:
        log.warning(warning)
    config, why = settle_engine(config, task, data)
    config = replace(config, data=GIVEN, partition=AS_GIVEN, models=AS_GIVEN)
    federation = make_federation(config, task, data)
    return experiment.Experiment(config, task, data, federation, engine_reason=why), models


def _carry_out(
    built: experiment.Experiment, directory: RunDir | None, progress: bool
) -> list[dict[str, Any]]:
    """All rounds. An error in code of the caller's, say a model's forward, is one that names their line."""
    try:
        with RoundBar(built.config, quiet=not progress) as bar:
            return experiment.carry_out(built, directory, bar if progress else None)
    except ProtofedError:
        raise
    except Exception as error:
        line = caller_line(error)
        if line is None:
            raise
        raise ConfigError(f"{line}: {reason(error)}") from error


def _hand_out(built: experiment.Experiment, models: Sequence[nn.Module]) -> None:
    """The modules' weights as the clients' first state."""
    task, dtype = built.task, built.task.dtype
    for i, model in enumerate(models):
        first = {f"model.{n}": t.detach().clone() for n, t in model.state_dict().items()}
        keep = set(kept_names(task, task.group_of(i)))
        kept = {n: t.to(dtype) if t.is_floating_point() else t for n, t in first.items() if n in keep}
        built.federation.engine.store.put(i, ClientState(kept))


def _collect(built: experiment.Experiment, models: Sequence[nn.Module]) -> None:
    """The final weights, into the modules."""
    task, federation = built.task, built.federation
    for i, model in enumerate(models):
        turn = ClientTurn(task, federation.round, "eval", client=i)
        down = task.algorithm.broadcast(federation.state, turn)
        tensors = assemble(task, turn, federation.engine.store.get(i), down)
        model.load_state_dict({n[len("model.") :]: t for n, t in tensors.items() if n.startswith("model.")})


def _check_call(clients: Sequence[Client], settings: Mapping[str, Any]) -> list[Client]:
    if isinstance(clients, Client) or not all(isinstance(client, Client) for client in clients):
        raise ConfigError("federate: expected a list of protofed.Client")
    if not clients:
        raise ConfigError("federate: no clients were given")
    for name in ("data", "partition", "models", "clients", "public"):
        if name in settings:
            raise ConfigError(
                f"federate: {name} does not apply: the clients bring models and data themselves"
            )
    return list(clients)


def _samples(clients: Sequence[Client], config: Config) -> tuple[list[LocalData], list[LocalData]]:
    """Training and test samples of all clients, with labels of one kind."""
    dtype, device = config.system.torch_dtype, config.system.torch_device
    train = [read_samples(c.train, f"client {i}: train", dtype, device) for i, c in enumerate(clients)]
    test = [
        read_samples(c.test, f"client {i}: test", dtype, device)
        if c.test is not None
        else without_samples(train[i])
        for i, c in enumerate(clients)
    ]
    for i, (own, tested) in enumerate(zip(train, test)):
        for part, found in (("train", own), ("test", tested)):
            if found.y.ndim != train[0].y.ndim:
                raise DataError(
                    f"client {i}: {part}: labels of shape {list(found.y.shape)}, but client 0 trains on "
                    f"{list(train[0].y.shape)}; all need classes, or all need masks"
                )
    return train, test
