"""Timing of a workload: contenders take turns within one process; medians and least turns are compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from protofed.engines.sampling import draw
from protofed.engines.workers import own_cores
from protofed.experiment import Experiment, build

from .child import Child
from .contender import Contender
from .kernels import Kernels, share_of_test
from .loops import Bare, ByHand, Loop, Naive
from .machine import load
from .peers import start_peer
from .released import start_released
from .stacked_by_hand import StackedByHand
from .workloads import WORKLOADS, workload_config

Tell = Callable[[str], None]
BY_HAND = "tensor work by hand, 1 thread"
STACKED = "stacked step by hand, 1 thread"
KERNELS = "kernels alone, 1 thread"
AS_RELEASED = ", as released"
IN_A_RUN = ", as in a run"
WHOLE_ROUNDS = ("w2", "w2p")  # where rounds with their tests are compared
RELEASED_FOR = {"w1": "fedproto", "w2": "htfllib", "w2p": "htfllib"}


@dataclass(frozen=True)
class Plan:
    """What to time beside the loops that are always there."""

    folder: Path  # for made-up data and the files of others
    engines: Sequence[str] = ("auto",)
    repeats: int = 3
    all_threads: bool = False  # the bare loop with a thread on each core, too
    small: bool = False
    peers: Sequence[str] = ()
    released: Mapping[str, Path] = field(default_factory=dict)  # by its name: the checkout


def bench(name: str, plan: Plan, tell: Tell) -> dict[str, Any]:
    """Time one workload. Ratios are of samples per second, over the same clients round by round."""
    before = load()
    # Our processes are forked on their first round, before any loop uses several threads.
    experiments, about = _experiments(name, plan)
    first = next(iter(experiments.values()))
    contenders = [_ours(title, experiment) for title, experiment in experiments.items()]
    if name in WHOLE_ROUNDS:
        contenders.insert(1, _ours(contenders[0].name + IN_A_RUN, first, beside=True))
    contenders += _loops(name, first, own_cores() if plan.all_threads and not plan.small else 1)
    children: list[Child] = []
    try:
        for child in _children(name, plan, experiments):
            children.append(child)
            tests = child.test if child.tests else None
            contenders.append(Contender(child.title, 1, child.play, tests, child.pids))
        _take_turns(name, contenders, plan.repeats, tell)
    finally:
        torch.set_num_threads(1)
        for child in children:
            child.close()
        for experiment in experiments.values():
            experiment.federation.engine.close()
    found = {
        "workload": name,
        "title": WORKLOADS[name].title,
        "data": about,
        "repeats": plan.repeats,
        "samples": contenders[0].samples,
        "load": [before, load()],
        "rows": [contender.row(contenders) for contender in contenders],
    }
    if name == "w1":
        found["test_share_of_multiply_adds"] = share_of_test(first, participants(first, 1))
    return found


def _take_turns(name: str, contenders: Sequence[Contender], repeats: int, tell: Tell) -> None:
    started = time.perf_counter()
    for turn in range(repeats + 1):
        for contender in contenders:
            tell(f"{name}: {contender.name}, {f'{turn} of {repeats}' if turn else 'warm-up'}")
            contender.turn(turn)
        if not turn:
            minutes = (time.perf_counter() - started) * repeats / 60
            tell(f"{name}: about {minutes:.0f} minutes more, if turns take as long as the warm-up")


def _experiments(name: str, plan: Plan) -> tuple[dict[str, Experiment], str]:
    """Ours by the title of the row, and a word about the data.

    W1 also shows what an engine adds to the tensor work, one by one and stacked, and what processes add to
    one: for that, the engines of one process. Beside FedProto's released code stands its own mathematics.
    """
    extra = [each for each in ("cohort", "sequential") if name == "w1" and each not in plan.engines]
    asked: list[tuple[str, dict[str, Any]]] = [(engine, {}) for engine in [*plan.engines, *extra]]
    if name == "w1" and "fedproto" in plan.released:
        asked.insert(1, (plan.engines[0], {"preset": "official"}))
    found, about = {}, ""
    for engine, changes in asked:
        config, about = workload_config(name, plan.folder, plan.small, engine=engine, **changes)
        experiment = build(config)
        title = f"protofed {experiment.config.system.engine}" + (" (auto)" if engine == "auto" else "")
        found[title + (AS_RELEASED if changes else "")] = experiment
    return found, about


def _children(name: str, plan: Plan, experiments: Mapping[str, Experiment]) -> Any:
    """Contenders in processes of their own, one after the other."""
    for peer in plan.peers if name == "w1" else ():
        yield start_peer(peer, plan.folder, plan.small)
    released = RELEASED_FOR.get(name, "")
    if released in plan.released:
        same = [one for title, one in experiments.items() if title.endswith(AS_RELEASED)]
        experiment = [*same, *experiments.values()][0]
        yield start_released(released, plan.released[released], experiment, plan.folder)


def _ours(title: str, experiment: Experiment, beside: bool = False) -> Contender:
    """`beside`: the round is told who is tested after it, as in a run, so that idle processes begin with the
    test: then only the sum of training and test means something. Else the two are timed apart."""
    federation = experiment.federation

    def pids() -> list[int]:
        workers = getattr(federation.engine, "_workers", [])
        return [worker.process.pid for worker in workers]

    return Contender(
        title,
        1,
        lambda turn: int(federation.play(participants(experiment, turn) if beside else ())["samples"]),
        lambda turn: federation.evaluate(participants(experiment, turn)),
        pids,
    )


def _loops(name: str, experiment: Experiment, several: int) -> list[Contender]:
    found = [_loop("bare loop, 1 thread", 1, Bare(experiment))]
    if several > 1:
        found.append(_loop(f"bare loop, {several} threads", several, Bare(experiment)))
    found.append(_loop("naive loop, 1 thread", 1, Naive(experiment)))
    if name == "w1":
        found.append(_loop(BY_HAND, 1, ByHand(experiment)))
        found.append(_loop(STACKED, 1, StackedByHand(experiment), limit=True))
    else:
        found.append(_loop(KERNELS, 1, Kernels(experiment), limit=True))
    return found


def _loop(title: str, threads: int, loop: Loop, limit: bool = False) -> Contender:
    experiment = loop.experiment
    tests = type(loop).test is not Loop.test
    return Contender(
        title,
        threads,
        lambda turn: loop.round(participants(experiment, turn), experiment.task.epochs),
        (lambda turn: loop.test(participants(experiment, turn))) if tests else None,
        limit=limit,
    )


def participants(experiment: Experiment, round: int) -> list[int]:
    """Clients of a round, as the federation draws them."""
    task, plan = experiment.task, experiment.config.rounds
    sampling = plan.sampling or task.algorithm.sampling
    drawn = draw(plan, sampling, task.clients, task.epochs, task.seed, round, experiment.data.size)
    return [one.client for one in drawn]
