"""Timing side by side: contenders take turns within one process run, and medians are compared."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..engines.sampling import draw
from ..experiment import Experiment, build
from .loops import Bare, Loop, Naive
from .workloads import WORKLOADS, workload_config


@dataclass
class Contender:
    """Something that trains one round and returns the number of samples."""

    name: str
    threads: int
    play: Callable[[int], int]
    seconds: list[float] = field(default_factory=list)
    samples: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def bench(
    name: str, folder: Path, engines: Sequence[str], repeats: int, small: bool, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Time one workload. Ratios are of samples per second, over the same clients round by round."""
    about, contenders, experiments = "", [], []
    cores = len(os.sched_getaffinity(0))
    for engine in engines:
        config, about = workload_config(name, folder, small, engine=engine)
        experiment = build(config)
        experiments.append(experiment)
        contenders.append(Contender(_title(experiment, engine), 1, _ours(experiment)))
    first = experiments[0]
    # Our processes are forked on their first round, before any loop uses several threads.
    loops = [("bare loop", Bare, 1), ("bare loop", Bare, cores), ("naive loop", Naive, 1)]
    for title, cls, threads in loops[: 3 if cores > 1 else 1]:
        loop: Loop = cls(first)
        label = f"{title}, {threads} thread{'s' if threads > 1 else ''}"
        contenders.append(Contender(label, threads, _theirs(loop, first)))
    for turn in range(repeats + 1):  # the first turn warms up
        for contender in contenders:
            tell(f"{name}: {contender.name}, {'warm-up' if turn == 0 else f'{turn} of {repeats}'}")
            torch.set_num_threads(contender.threads)
            started = time.perf_counter()
            contender.samples = contender.play(turn + 1)
            if turn:
                contender.seconds.append(time.perf_counter() - started)
    torch.set_num_threads(1)
    share = _evaluation_share(first, contenders[0].median)
    memory = _memory(experiments)
    for experiment in experiments:
        experiment.federation.engine.close()
    rates = {c.name: c.samples / c.median for c in contenders}
    return {
        "workload": name,
        "title": WORKLOADS[name].title,
        "data": about,
        "repeats": repeats,
        "samples": contenders[0].samples,
        "rows": [
            {
                "name": c.name,
                "seconds": c.median,
                "samples_per_second": rates[c.name],
                "ratios": {other.name: rates[c.name] / rates[other.name] for other in contenders},
            }
            for c in contenders
        ],
        "evaluation_share": share,
        "peak_mb": memory,
    }


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _title(experiment: Experiment, engine: str) -> str:
    chosen = experiment.config.system.engine
    return f"protofed {chosen}" + (" (auto)" if engine == "auto" else "")


def _ours(experiment: Experiment) -> Callable[[int], int]:
    def play(turn: int) -> int:
        return int(experiment.federation.play()["samples"])

    return play


def _theirs(loop: Loop, experiment: Experiment) -> Callable[[int], int]:
    def play(turn: int) -> int:
        return loop.round(_participants(experiment, turn), experiment.task.epochs)

    return play


def _participants(experiment: Experiment, round: int) -> list[int]:
    task, plan = experiment.task, experiment.config.rounds
    sampling = plan.sampling or task.algorithm.sampling
    drawn = draw(plan, sampling, task.clients, task.epochs, task.seed, round, experiment.data.size)
    return [one.client for one in drawn]


def _evaluation_share(experiment: Experiment, round_seconds: float) -> float:
    """Share of a round that a test of all its participants would take."""
    clients = _participants(experiment, 1)
    experiment.federation.evaluate(clients)
    started = time.perf_counter()
    experiment.federation.evaluate(clients)
    spent = time.perf_counter() - started
    return spent / (spent + round_seconds)


def _memory(experiments: Sequence[Experiment]) -> dict[str, float]:
    """Peak resident memory in MB of this process (all contenders) and of the largest worker."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"process": peak}
    workers = [w for e in experiments for w in getattr(e.federation.engine, "_workers", [])]
    if workers:
        found["largest worker"] = max(_peak_of(w.process.pid) for w in workers)
    return found


def _peak_of(pid: int) -> float:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0.0
    lines = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) / 1024 if lines else 0.0
