"""Which engine suits a run, when the user does not say.

The rule, from measurements with `python -m benchmarks` (docs/speed.md):

- Worker processes pay off once a round is worth more than feeding them; the work of a round is taken
  as samples × epochs × parameters.
- On another device than the CPU: cohorts of at least four clients of one architecture, one stacked step for
  all; else one client after the other.
- On CPUs, cohorts pay off for small networks (at most 100,000 parameters), made of layers with a stacked
  form, with at least four clients of one architecture per worker. Larger layers are bound by memory traffic,
  and one client at a time is as fast or faster.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..core.data import ClientData
from ..core.errors import ConfigError, EngineError
from ..core.task import Task
from .base import Engine
from .cohort import Cohort
from .sequential import Sequential
from .stacked import can_stack
from .store import Store
from .workers import Workers, own_cores

NAMES = ("auto", "sequential", "cohort", "workers", "workers+cohort", "flower")
SMALL_MODEL = 100_000  # parameters
FEW_CLIENTS = 4
LITTLE_WORK = 5e7  # samples × epochs × parameters in a round, under which processes are not worth it


@dataclass(frozen=True)
class Choice:
    """An engine's name and the reason."""

    name: str
    reason: str


def choose(task: Task, data: ClientData, participants: int) -> Choice:
    """The engine for this task: see the rule above."""
    cores = own_cores()
    sampled = min(len(data), 100)
    mean = sum(data.size(c) for c in range(sampled)) / max(1, sampled)
    sizes = [task.parameter_count(g) for g in range(len(task.groups))]
    work = participants * mean * task.epochs * sum(sizes) / len(sizes)
    each = participants / len(sizes) / cores
    nets = [task.live(g) for g in range(len(sizes))]
    stackable = all(can_stack(m) for net in nets for m in net.modules.values()) and not any(
        net.tied for net in nets
    )
    stackable = stackable and task.private is None  # with noise, one client at a time
    if task.device.type != "cpu":
        stacks = stackable and participants / len(sizes) >= FEW_CLIENTS
        return Choice("cohort" if stacks else "sequential", f"the device is {task.device}")
    cohort = stackable and max(sizes) <= SMALL_MODEL and each >= FEW_CLIENTS
    if cores == 1 or work < LITTLE_WORK or not hasattr(os, "fork"):
        reason = "one core" if cores == 1 else "little work a round"
        return Choice("cohort", f"{reason}, small models") if cohort else Choice("sequential", reason)
    if cohort:
        return Choice("workers+cohort", f"{cores} cores, small models, {each:.0f} clients each per worker")
    return Choice("workers", f"{cores} cores")


def make(
    name: str,
    task: Task,
    data: ClientData,
    store: Store,
    workers: int | None = None,
    worker_timeout: float | None = None,
) -> Engine:
    """An engine by name. ("flower" keeps files, so it is made higher up: `federating.make_engine`.)"""
    if name == "flower":
        raise EngineError("engine flower is made by federating.make_engine")
    if "cohort" in name and task.private is not None:
        raise ConfigError(
            f"engine {name}: dp example adds noise to the gradients of single samples, one client at a time; "
            "use sequential or workers"
        )
    if name == "cohort":
        return Cohort(task, data, store)
    if name in ("workers", "workers+cohort"):
        return Workers(task, data, store, workers, name == "workers+cohort", worker_timeout)
    return Sequential(task, data, store)
