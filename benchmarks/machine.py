"""The machine: what it is, how much memory a piece of work takes, timing by turns."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from protofed.engines.workers import own_cores

STEPS = """
import sys, time, torch
torch.set_num_threads(1)
net = torch.nn.Conv2d(16, 16, 3)
x = torch.randn(8, 16, 28, 28)
net(x).sum().backward()
steps, end = 0, time.perf_counter() + float(sys.argv[1])
while time.perf_counter() < end:
    net(x).square().mean().backward()
    steps += 1
sys.stdout.write(str(steps))
"""


def machine(seconds: float) -> dict[str, Any]:
    """What the figures were taken on; `seconds` go into the measure of its cores."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return {
        "processor": model,
        "cores": own_cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load": round(os.getloadavg()[0], 2),
        "parallel": parallel_gain(seconds),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def parallel_gain(seconds: float) -> float:
    """How many times the work of one process is done by one process a core: what processes can give at
    most here. Cores that share their units, caches or host with others give less than their number."""
    alone = _steps(1, seconds)
    return round(_steps(own_cores(), seconds) / max(1, alone), 2)


def _steps(processes: int, seconds: float) -> int:
    command = [sys.executable, "-c", STEPS, str(seconds)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return sum(int(process.communicate()[0]) for process in started)


def child_environment() -> dict[str, str]:
    """Of a process that imports these benchmarks, wherever it starts, and computes with one thread."""
    root = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def interleaved(work: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each, by turns; a first turn warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(repeats + 1):
        for name, function in work.items():
            started = time.perf_counter()
            function()
            if turn:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def ratios(seconds: Mapping[str, Sequence[float]], base: str) -> dict[str, dict[str, float]]:
    """Times as long as `base` takes, by medians and by fastest turns."""
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    fastest = {name: min(values) for name, values in seconds.items()}
    return {
        "ratios": {name: value / middle[base] for name, value in middle.items()},
        "fastest_ratios": {name: value / fastest[base] for name, value in fastest.items()},
    }


class Peak:
    """Peak resident memory of this process while a block runs, in MB, and its growth over the start.

    Linux forgets the peak when asked to; elsewhere the peak of the whole process so far is given.
    """

    growth_mb: float
    peak_mb: float

    def __enter__(self) -> Peak:
        _forget_peak()
        self._before = memory_mb("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.peak_mb = memory_mb("VmHWM")
        self.growth_mb = max(0.0, self.peak_mb - self._before)


def memory_mb(what: str, pid: int | str = "self") -> float:
    """VmRSS (now) or VmHWM (peak) of a process."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if pid == "self" else 0.0
    lines = [line for line in status.read_text().splitlines() if line.startswith(what)]
    return int(lines[0].split()[1]) / 1024 if lines else 0.0


def _forget_peak() -> None:
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")
