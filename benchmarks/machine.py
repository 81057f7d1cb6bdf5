"""The machine: what it is, how much memory a piece of work takes, timing by turns."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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
        "load": load(),
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


class Timed(NamedTuple):
    """A moment, or the seconds of a turn: by the clock, and of CPU."""

    wall: float
    cpu: float

    @classmethod
    def now(cls, pids: Sequence[int] = ()) -> Timed:
        """This moment; CPU time with that of the processes `pids`."""
        return cls(time.perf_counter(), cpu_seconds(pids))

    def since(self, start: Timed) -> Timed:
        """Seconds between two moments."""
        return Timed(self.wall - start.wall, self.cpu - start.cpu)


class Span(NamedTuple):
    """Of several turns: the median and the least."""

    median: float
    least: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Span:
        """Of these values."""
        return cls(statistics.median(values), min(values))

    def named(self, key: str) -> dict[str, float]:
        """As figures of a result."""
        return {key: self.median, f"fastest_{key}": self.least}


def interleaved(work: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[Timed]]:
    """Seconds of each, by turns; a first turn warms up."""
    seconds: dict[str, list[Timed]] = {name: [] for name in work}
    for turn in range(repeats + 1):
        for name, function in work.items():
            started = Timed.now()
            function()
            if turn:
                seconds[name].append(Timed.now().since(started))
    return seconds


def spans(turns: Mapping[str, Sequence[Timed]]) -> dict[str, dict[str, float]]:
    """Seconds of each: medians by plain names, the least of all turns as fastest_…"""
    found = {}
    for key, unit in (("seconds", "wall"), ("cpu_seconds", "cpu")):
        each = {name: Span.of([getattr(one, unit) for one in values]) for name, values in turns.items()}
        found[key] = {name: span.median for name, span in each.items()}
        found[f"fastest_{key}"] = {name: span.least for name, span in each.items()}
    return found


def ratios(turns: Mapping[str, Sequence[Timed]], base: str) -> dict[str, dict[str, float]]:
    """Times as long as `base` takes, by the clock and in CPU seconds."""
    found = {}
    for key, seconds in spans(turns).items():
        found[key.replace("seconds", "ratios")] = {
            name: value / seconds[base] for name, value in seconds.items()
        }
    return found


def cpu_seconds(pids: Sequence[int] = ()) -> float:
    """CPU time so far: of this process, of children that it has waited for, and of the processes `pids` with
    all that they have started. Of others than this one it is known on Linux alone."""
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in own) + sum(_used(pid) for pid in _with_below(pids))


def _with_below(pids: Sequence[int]) -> set[int]:
    """These processes and their descendants."""
    if not pids:
        return set()
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended just now
            parents[int(path.parent.name)] = int(_fields(path)[1])
    found, before = set(pids), 0
    while len(found) > before:
        before = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found


def _used(pid: int) -> float:
    """Of one process and of those children that it has waited for."""
    try:
        waited = sum(map(int, _fields(Path(f"/proc/{pid}/stat"))[13:15])) / os.sysconf("SC_CLK_TCK")
        return waited + time.clock_gettime(~pid << 3 | 2)  # Linux: the CPU clock of that process
    except OSError:
        return 0.0


def _fields(stat: Path) -> list[str]:
    """What follows the name of the program, which may hold blanks."""
    return stat.read_text().rpartition(")")[2].split()


def load() -> float:
    """Processes that wanted a core, mean over the last minute."""
    return round(os.getloadavg()[0], 2)


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
