"""Whatever takes turns in a workload: its seconds by the clock and of CPU, and how it stands to others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from protofed.engines.workers import own_cores

from .machine import Peak, Span, Timed, memory_mb


@dataclass
class Contender:
    """Something that trains one round and returns the number of samples; `test` tests its clients."""

    name: str
    threads: int
    play: Callable[[int], int]
    test: Callable[[int], Any] | None = None
    pids: Callable[[], list[int]] = list  # its other processes, whose time and memory count too
    limit: bool = False  # what the others are held against
    trained: list[Timed] = field(default_factory=list)
    tested: list[Timed] = field(default_factory=list)
    samples: int = 0
    peak_mb: float = 0.0

    def turn(self, number: int) -> None:
        """One round, and a test where there is one. Turn 0 warms up."""
        torch.set_num_threads(self.threads)
        with Peak() as peak:
            started = Timed.now(self.pids())
            self.samples = self.play(number + 1)
            trained = Timed.now(self.pids())
            if self.test:
                self.test(number + 1)
            tested = Timed.now(self.pids())
        self.peak_mb = max(self.peak_mb, peak.peak_mb + sum(memory_mb("VmHWM", pid) for pid in self.pids()))
        if number:
            self.trained.append(trained.since(started))
            self.tested.append(tested.since(trained))

    @property
    def wall(self) -> Span:
        """Seconds of a round by the clock."""
        return Span.of([one.wall for one in self.trained])

    @property
    def cpu(self) -> Span:
        """CPU seconds of a round, those of its other processes included."""
        return Span.of([one.cpu for one in self.trained])

    def row(self, others: Sequence[Contender]) -> dict[str, Any]:
        """Medians by plain names, the least of all turns as fastest_…; ratios are of samples a second."""
        limit = next((one for one in others if one.limit), None)
        found: dict[str, Any] = {"name": self.name, "samples": self.samples, "peak_mb": self.peak_mb}
        found |= self.wall.named("seconds") | self.cpu.named("cpu_seconds")
        for key, unit in (("test_seconds", "wall"), ("test_cpu_seconds", "cpu")):
            values = [getattr(one, unit) for one in self.tested] if self.test else []
            found |= Span.of(values).named(key) if values else {key: None, f"fastest_{key}": None}
        found |= Span(*(self.samples / seconds for seconds in self.wall)).named("samples_per_second")
        found |= _ratios("ratios", {other.name: _faster(self, other, "wall") for other in others})
        found |= _ratios("cpu_ratios", {other.name: _faster(self, other, "cpu") for other in others})
        if limit:
            found |= _faster(self, limit, "cpu").named("limit_share")
            found |= _on_all_cores(self, limit).named("limit_share_of_all_cores")
        return found


def _faster(one: Contender, other: Contender, unit: str) -> Span:
    """How many times as many samples a second: of wall or of CPU seconds."""
    pairs = zip(getattr(one, unit), getattr(other, unit))
    return Span(*(theirs / ours * one.samples / other.samples for ours, theirs in pairs))


def _on_all_cores(one: Contender, limit: Contender) -> Span:
    """Samples a second beside those of the limit if it ran on every core at once."""
    pairs = zip(one.wall, limit.cpu)
    samples = one.samples / limit.samples
    return Span(*(bound / (wall * own_cores()) * samples for wall, bound in pairs))


def _ratios(key: str, spans: dict[str, Span]) -> dict[str, dict[str, float]]:
    medians = {name: span.median for name, span in spans.items()}
    return {key: medians, f"fastest_{key}": {name: span.least for name, span in spans.items()}}
