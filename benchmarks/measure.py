"""Timing of a workload: contenders take turns within one process run, and medians are compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from protofed.engines.sampling import draw
from protofed.engines.workers import own_cores
from protofed.experiment import Experiment, build

from .loops import Bare, ByHand, Loop, Naive
from .machine import Peak, memory_mb
from .peers import Peer
from .workloads import WORKLOADS, workload_config

Tell = Callable[[str], None]
BY_HAND = "tensor work by hand, 1 thread"


@dataclass
class Contender:
    """Something that trains one round and returns the number of samples; `test` tests its clients."""

    name: str
    threads: int
    play: Callable[[int], int]
    test: Callable[[int], Any] | None = None
    pids: Callable[[], list[int]] = list  # worker processes, whose memory counts too
    seconds: list[float] = field(default_factory=list)
    test_seconds: list[float] = field(default_factory=list)
    samples: int = 0
    peak_mb: float = 0.0

    @property
    def rate(self) -> float:
        return self.samples / statistics.median(self.seconds)

    @property
    def top_rate(self) -> float:
        return self.samples / min(self.seconds)

    def turn(self, number: int) -> None:
        """One round, and a test where there is one. Turn 0 warms up."""
        torch.set_num_threads(self.threads)
        with Peak() as peak:
            started = time.perf_counter()
            self.samples = self.play(number + 1)
            trained = time.perf_counter()
            if self.test:
                self.test(number + 1)
            tested = time.perf_counter()
        self.peak_mb = max(self.peak_mb, peak.peak_mb + sum(memory_mb("VmHWM", pid) for pid in self.pids()))
        if number:
            self.seconds.append(trained - started)
            self.test_seconds.append(tested - trained)

    def row(self, others: Sequence[Contender]) -> dict[str, Any]:
        seconds = statistics.median(self.seconds)
        test = statistics.median(self.test_seconds) if self.test else None
        return {
            "name": self.name,
            "seconds": seconds,
            "fastest_seconds": min(self.seconds),
            "test_seconds": test,
            "fastest_test_seconds": min(self.test_seconds) if self.test else None,
            "test_share": test / (test + seconds) if test is not None else None,
            "samples_per_second": self.rate,
            "peak_mb": self.peak_mb,
            "ratios": {other.name: self.rate / other.rate for other in others},
            "fastest_ratios": {other.name: self.top_rate / other.top_rate for other in others},
        }


def bench(
    name: str,
    folder: Path,
    engines: Sequence[str],
    repeats: int,
    small: bool,
    tell: Tell,
    peers: Sequence[str] = (),
) -> dict[str, Any]:
    """Time one workload. Ratios are of samples per second, over the same clients round by round."""
    # Our processes are forked on their first round, before any loop uses several threads.
    about, experiments = "", []
    for engine in _engines(name, engines):
        config, about = workload_config(name, folder, small, engine=engine)
        experiments.append((engine, build(config)))
    contenders = [_ours(engine, experiment) for engine, experiment in experiments]
    contenders += _loops(name, experiments[0][1], 1 if small else own_cores())
    started = [Peer(peer, folder, small) for peer in peers if name == "w1"]
    contenders += [Contender(peer.title, 1, peer.play, pids=peer.pids) for peer in started]
    try:
        for turn in range(repeats + 1):
            for contender in contenders:
                tell(f"{name}: {contender.name}, {f'{turn} of {repeats}' if turn else 'warm-up'}")
                contender.turn(turn)
    finally:
        torch.set_num_threads(1)
        for peer in started:
            peer.close()
        for _, experiment in experiments:
            experiment.federation.engine.close()
    return {
        "workload": name,
        "title": WORKLOADS[name].title,
        "data": about,
        "repeats": repeats,
        "samples": contenders[0].samples,
        "rows": [contender.row(contenders) for contender in contenders],
    }


def _engines(name: str, engines: Sequence[str]) -> list[str]:
    """W1 also shows what an engine adds to the tensor work: for that, one that runs it unchanged."""
    extra = ["sequential"] if name == "w1" and "sequential" not in engines else []
    return [*engines, *extra]


def _ours(engine: str, experiment: Experiment) -> Contender:
    federation = experiment.federation
    chosen = experiment.config.system.engine

    def pids() -> list[int]:
        workers = getattr(federation.engine, "_workers", [])
        return [worker.process.pid for worker in workers]

    return Contender(
        f"protofed {chosen}" + (" (auto)" if engine == "auto" else ""),
        1,
        lambda turn: int(federation.play()["samples"]),
        lambda turn: federation.evaluate(participants(experiment, turn)),
        pids,
    )


def _loops(name: str, experiment: Experiment, several: int) -> list[Contender]:
    found = [_loop("bare loop", 1, Bare(experiment))]
    if several > 1:
        found.append(_loop("bare loop", several, Bare(experiment)))
    found.append(_loop("naive loop", 1, Naive(experiment)))
    if name == "w1":
        found.append(_loop(BY_HAND.removesuffix(", 1 thread"), 1, ByHand(experiment)))
    return found


def _loop(title: str, threads: int, loop: Loop) -> Contender:
    experiment = loop.experiment
    tests = type(loop).test is not Loop.test
    return Contender(
        f"{title}, {threads} thread{'s' if threads > 1 else ''}",
        threads,
        lambda turn: loop.round(participants(experiment, turn), experiment.task.epochs),
        (lambda turn: loop.test(participants(experiment, turn))) if tests else None,
    )


def participants(experiment: Experiment, round: int) -> list[int]:
    task, plan = experiment.task, experiment.config.rounds
    sampling = plan.sampling or task.algorithm.sampling
    drawn = draw(plan, sampling, task.clients, task.epochs, task.seed, round, experiment.data.size)
    return [one.client for one in drawn]
