"""A new client joins a finished run: FedProto's "new client" (Tan et al., section Model Inference).

The newcomer has any architecture whose embedding has the run's size, a fresh (or pretrained) start and
its own samples. It downloads the run's global knowledge, minimises the method's own loss for some
epochs, and is tested. Beside it, the same start is trained alone on the same batches: the gain is what
the federation gave.

Where the method sends weights too (FPL, FedPLVM, FedPLCC, FedProc), a newcomer with the run's
architecture starts from them; with another one it keeps its own start and follows the prototypes alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .config import Config
from .core.algorithm import Leg
from .core.answer import ClientState
from .core.client import run_leg, score_client
from .core.data import LocalData
from .core.errors import ConfigError, DataError
from .core.net import selects
from .core.record import Record, Tree
from .core.task import ClientTurn, Group, Task, Turn
from .experiment import Experiment, make_task
from .models.groups import assign


@dataclass(frozen=True)
class Newcomer:
    """Test accuracy in percent per prediction mode: with the run's knowledge, and alone."""

    client: int
    model: str
    train_samples: int
    classes: int
    before: dict[str, float]
    joined: dict[str, float]
    alone: dict[str, float]


def onboard(experiment: Experiment, client: int, models: str, epochs: int) -> Newcomer:
    """Let one of the run's held-out clients (`--newcomers`) join, with a model of its own."""
    data = experiment.data
    if not 0 <= client < len(data):
        raise ConfigError(
            f"onboard: client {client} does not exist; the run has clients 0 to {len(data) - 1}"
        )
    return join(experiment, data.train(client), data.test(client), models, epochs, client)


def join(
    experiment: Experiment, train: LocalData, test: LocalData, models: str, epochs: int, client: int
) -> Newcomer:
    """Let a newcomer with these samples join. `client` only names it (and its random numbers)."""
    algorithm = experiment.task.algorithm
    for part, data in (("training", train), ("test", test)):
        if not len(data):
            raise DataError(f"onboard: the newcomer (client {client}) has no {part} samples")
    if algorithm.prototypes(experiment.federation.state) is None:
        raise ConfigError(
            f"{algorithm.name} keeps no global prototypes that a newcomer could use; onboard works for "
            "prototype methods such as fedproto"
        )
    # A schedule that fell to 0 by the run's end would leave the newcomer nothing to learn with.
    config = replace(experiment.config, train=replace(experiment.config.train, schedule="constant"))
    task = _task(experiment, config, models, train, client)
    alone = _task(
        experiment,
        replace(config, method="local", preset="default", options={}),
        models,
        train,
        client,
    )
    down = algorithm.broadcast(
        experiment.federation.state, Turn(experiment.task, experiment.federation.round)
    )
    down = _fitting(down, task, client)
    nothing = alone.algorithm.broadcast(alone.algorithm.init(alone, Turn(alone, 0)), Turn(alone, 0))
    count = train.present(task.C).sum()
    return Newcomer(
        client,
        task.groups[0].name,
        len(train),
        int(count),
        _test(_turn(task, experiment, client, 0), None, train, test, down),
        _trained(_turn(task, experiment, client, epochs), train, test, down),
        _trained(_turn(alone, experiment, client, epochs), train, test, nothing),
    )


def _task(experiment: Experiment, config: Config, models: str, train: LocalData, client: int) -> Task:
    """The run's task for one more client with its own model; numbered so that it is client `client`."""
    run = experiment.task
    choice = assign(models, 1, tuple(train.x.shape[1:]), run.C)
    group = Group(choice.specs[0], choice.builders[0])
    algorithm = config.make_method()
    dense = train.y.ndim > 1
    index = np.zeros(max(client + 1, config.rounds.newcomers + 1), dtype=np.int64)
    task = make_task(
        config, algorithm, [group], index, tuple(train.x.shape[1:]), run.class_names, dense=dense
    )
    if task.D != run.D:
        raise ConfigError(
            f"onboard: {group.name} makes embeddings of size {task.D}, but the run's prototypes have size "
            f"{run.D}; choose a model with dim={run.D}"
        )
    return task


def _fitting(down: Record, task: Task, client: int) -> Record:
    """The download; weights of another architecture give way to the newcomer's own start."""
    sent = getattr(down, "weights", None)
    if not sent:
        return down
    own = task.fresh(0, client)
    if all(name in own and own[name].shape == tensor.shape for name, tensor in sent.items()):
        return down
    prefixes = {name.split(".")[0] + "." for name in sent}
    return _with_weights(down, {n: t for n, t in own.items() if selects(prefixes, n)})


def _turn(task: Task, experiment: Experiment, client: int, epochs: int) -> ClientTurn:
    return ClientTurn(task, experiment.federation.round + 1, "onboard", client=client, epochs=epochs)


def _trained(turn: ClientTurn, train: LocalData, test: LocalData, down: Record) -> dict[str, float]:
    leg = turn.task.algorithm.legs[-1]
    outcome = run_leg(turn, Leg("onboard", leg.down, leg.up, leg.phases), None, train, down)
    return _test(turn, outcome.state, train, test, _trained_weights(down, turn))


def _trained_weights(down: Record, turn: Turn) -> Record:
    """The download with the newcomer's trained weights in it: it is tested with its own model."""
    sent = getattr(down, "weights", None)
    if not sent:
        return down
    trained = turn.task.live(turn.group).tensors()
    return _with_weights(down, {name: trained[name] for name in sent})


def _with_weights(down: Record, weights: Tree) -> Record:
    return type(down)(**{**vars(down), "weights": weights})


def _test(
    turn: ClientTurn, state: ClientState | None, train: LocalData, test: LocalData, down: Record
) -> dict[str, float]:
    score = score_client(replace(turn, leg="eval"), state, train, test, down)
    return {mode: 100.0 * hits / score.n for mode, hits in score.correct.items()} if score.n else {}


def as_dict(newcomer: Newcomer) -> dict[str, Any]:
    """For JSON."""
    return dict(vars(newcomer))
