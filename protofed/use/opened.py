"""From a run directory to its task and states, without data and engines."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from .. import experiment
from ..config import Config, resolve
from ..core.answer import ClientState
from ..core.data import LocalData
from ..core.errors import ConfigError, RunError
from ..core.record import Record, Tree
from ..core.task import ClientTurn, Group, Task, Turn
from ..data.inputs import WHOLE, InputRule
from ..engines.store import Store
from ..models.groups import assign
from ..runs.about import AboutRun
from ..runs.class_counts import count_rows, counts_of, read_counts
from ..runs.directory import RunDir
from ..runs.input_rules import read_rule, read_rules
from ..runs.kept_files import settings_with_kept
from ..runs.mixtures import read_mixtures
from ..runs.outcome import Outcome


@dataclass(frozen=True)
class Opened:
    """A run's parts. `down` gives what would come down to a client; `missing` says why a client's own state
    is not here, if it is not."""

    task: Task
    round: int
    names: tuple[str, ...]  # of the clients
    state: Record | None  # the server's; None at a client
    own: Mapping[int, ClientState] | Store
    down: Callable[[ClientTurn], Record]
    rule: Callable[[int], InputRule]  # how a client's inputs are made
    counts: Callable[[int], Tensor]  # samples [C] of each class that it trained on
    missing: Callable[[int], str] = lambda client: ""
    shares: Mapping[int, float] = field(default_factory=dict)  # of the classifier in the mode ens
    alone: int | None = None  # the one client whose folder this is
    predicts: bool = True  # False at a server, which knows no samples

    def turn(self, client: int) -> ClientTurn:
        """That of a client's test."""
        return ClientTurn(self.task, self.round, "eval", client=client)

    def state_of(self, client: int) -> ClientState | None:
        """What the client keeps; None if it never took part."""
        return self.own.get(client)

    def memory(self, client: int) -> Tree:
        """What `predict` sees of the client's own."""
        state = self.state_of(client)
        return state.mem if state else {}


def open_run(outcome: Outcome, models: Sequence[nn.Module], unfinished: bool) -> Opened:
    """A run of `protofed run` or of Python. `models`: the modules of a run that was given them in Python."""
    directory = RunDir.open(outcome.path)
    check_finished(outcome, unfinished)
    config = on_cpu(resolve(settings_with_kept(directory.config, directory.path)))
    path, store = directory.path, Store()
    if outcome.about.shapes:
        task, counts = make_task(config, outcome.about, path, models), read_counts(path)
        rule: Callable[[int], InputRule] = lambda client: _rule(path, client)  # noqa: E731
    else:  # of an earlier version: from its data, if that is still there
        built = experiment.reopen(directory)
        built.federation.engine.close()
        task, counts = built.task, count_rows(built.federation.data, built.task.C)
        rule = lambda client: built.dataset.rule()  # type: ignore[union-attr] # noqa: E731
    found = directory.checkpoints.load(type(first_state(task)), store)
    return Opened(
        task,
        found.round,
        tuple(map(str, range(task.clients))),
        found.state,
        store,
        lambda turn: task.algorithm.broadcast(found.state, turn),
        rule,
        lambda client: counts_of(counts, client, task.C),
        shares=read_mixtures(path, found.round),
    )


def _rule(path: Path, client: int) -> InputRule:
    found = read_rule(path, client)
    if found is None:
        raise RunError(f"{path} lacks inputs.json, which says how inputs are made")
    return found


def check_finished(outcome: Outcome, unfinished: bool) -> None:
    """A run on its way is used only if that is asked for."""
    if not outcome.finished and not unfinished:
        raise RunError(
            f"{outcome.path} is not finished ({outcome.rounds} of {outcome.planned_rounds} rounds): go on "
            f"with `protofed resume {outcome.path}`, or take it as it stands: unfinished=True, --unfinished"
        )


def on_cpu(config: Config) -> Config:
    """Predictions are made here, wherever the run was trained."""
    return replace(config, system=replace(config.system, device="cpu"))


@torch.no_grad()
def first_state(task: Task) -> Record:
    """The state before the first round: its type reads checkpoints."""
    return task.algorithm.init(task, Turn(task, 0))


def make_task(config: Config, about: AboutRun, path: Path, models: Sequence[nn.Module] = ()) -> Task:
    """The task of a run, from what is kept of it."""
    classes, clients, shapes = about.classes, about.clients or config.clients, about.shapes
    if config.data == experiment.GIVEN:
        groups, index = _given(models, about, clients)
    elif models:
        raise ConfigError(f"models: this run builds its own ({config.models}); leave them out")
    else:
        choice = assign(config.models, clients, shapes[0], len(classes))
        groups, index = [Group(*pair) for pair in zip(choice.specs, choice.builders)], choice.of
    dtype = config.system.torch_dtype
    public = None
    if about.public is not None:  # of which only the number is asked
        x = torch.zeros(1, *shapes[0], dtype=dtype).expand(about.public, *shapes[0])
        public = LocalData(x, torch.full((about.public,), -1))
    kinds = [torch.int64 if rule.dtype == WHOLE else dtype for rule in read_rules(path)]
    inputs = [torch.zeros(2, *shape, dtype=kinds[min(g, len(kinds) - 1)]) for g, shape in enumerate(shapes)]
    return experiment.make_task(
        config, config.make_method(), groups, index, shapes, classes, public, about.dense, inputs
    )


def _given(models: Sequence[nn.Module], about: AboutRun, clients: int) -> tuple[list[Group], np.ndarray]:
    """Groups of modules that were given in Python: one for each group, or one for each client."""
    index = np.array(about.group_index or [0] * clients)
    if not models:
        raise ConfigError(
            f"the models of this run ({', '.join(about.groups)}) were given in Python: give such modules, "
            "whatever their weights, to load it as well, protofed.load(RUN, models=[…])"
        )
    if len(models) == clients:
        models = [models[int(np.argmax(index == group))] for group in range(len(about.groups))]
    if len(models) != len(about.groups):
        raise ConfigError(
            f"models: {len(models)} were given; the run has {clients} clients with models of "
            f"{len(about.groups)} kinds ({', '.join(about.groups)}): give one for each client, or one a kind"
        )
    return [Group(n, lambda m=m: copy.deepcopy(m)) for n, m in zip(about.groups, models)], index  # type: ignore[misc]
