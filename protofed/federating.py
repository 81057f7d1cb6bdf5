"""The engine and the round loop that a configuration asks for."""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import replace

from .config import Config
from .core.data import ClientData
from .core.errors import EngineError
from .core.task import Task
from .data.merged import Merged
from .engines import choose
from .engines.base import Engine
from .engines.checks import Checks, check_trees
from .engines.federation import Federation
from .engines.store import Store
from .engines.workers import own_cores
from .runs.class_counts import most_holders
from .trust.adversary import make_adversary
from .trust.guards import make_guards

log = logging.getLogger("protofed")


def settle_engine(config: Config, task: Task, data: ClientData) -> tuple[Config, str]:
    """Put the chosen engine in place of "auto", so that a resumed run uses the same, with as many workers.
    Returns the reason too."""
    config.transport.check_used(config.system.engine)
    system, why = config.system, ""
    if system.engine == "auto":
        choice = choose.choose(task, data, config.rounds.participants(task.clients))
        why = choice.reason
        log.info("engine %s (%s)", choice.name, why)
        system = replace(system, engine=choice.name)
    if system.engine == "workers+cohort" and system.workers is None:  # who is in a cohort depends on it
        system = replace(system, workers=own_cores())
    return replace(config, system=system), why


def make_federation(config: Config, task: Task, data: ClientData) -> Federation:
    """The engine and its round loop. A method with pooled data trains at the first client, which has
    all samples; the others are tested only."""
    plan = config.rounds
    if task.algorithm.needs.merged:
        data = Merged(data, task.clients - plan.newcomers)
        plan = replace(plan, newcomers=task.clients - 1, sample=None, participation=1.0, stragglers=0.0)
    asked = plan.participants(task.clients)  # too many: an error now rather than in the first round
    samples = sum(map(data.size, range(task.clients - plan.newcomers))) if config.trust.dp else 0
    guards = make_guards(
        config.trust, task, asked, holders=lambda: most_holders(data, task.C), samples=samples
    )
    adversary = make_adversary(config.trust, task, data, config.system.engine)
    engine = make_engine(config, task, adversary.trained_on if adversary else data)
    on_failure = "drop" if adversary else config.system.on_failure  # no attacker may end a run
    federation = Federation(task, data, engine, plan, on_failure, guards, adversary)
    if adversary is not None:
        adversary.state = lambda: federation.state
        engine.checks = Checks(task, check_trees)  # also where the engine has looked before attackers did
    return federation


def make_engine(config: Config, task: Task, data: ClientData) -> Engine:
    """The engine that the settings name."""
    if config.system.engine == "flower":
        return _flower(config, task, data)
    system = config.system
    return choose.make(system.engine, task, data, Store(), system.workers, system.worker_timeout)


def _flower(config: Config, task: Task, data: ClientData) -> Engine:
    if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("ray") is None:
        raise EngineError("engine flower needs Flower: pip install 'protofed[flower]'")
    from .flower.simulation import simulated

    config.transport.check_quorum(config.rounds.participants(task.clients))
    return simulated(task, data, Store(), config.transport, config.system.workers)
