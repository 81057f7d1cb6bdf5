"""Gaussian noise: drawn from the run's seed in a simulation, from the operating system in a deployment.

In a simulation the same seed gives the same run, as everywhere. Between machines that would be no privacy:
clients know the seed, and could take the noise away again. There it comes from the operating system, is never
stored, and a round that is played again after a restart gets new noise and is counted once more (`Spending`).
"""

from __future__ import annotations

import math
import os
from typing import Protocol

import torch
from torch import Tensor

from ..core.task import Turn


class Spending(Protocol):
    """Counts releases where rounds may be played twice with different noise: the books of a deployment."""

    def add(self, *names: str) -> int:
        """One release more for each of these; returns the highest count of all that were ever named. On disk
        before the noise is drawn."""
        ...

    @property
    def most(self) -> int:
        """The highest count so far."""
        ...


def gaussian(size: int, turn: Turn, secret: bool) -> Tensor:
    """Standard normal numbers [size] in float64."""
    if secret:
        return _from_system(size)
    generator = turn.generator("privacy")
    return torch.randn(size, generator=generator, dtype=torch.float64)


def _from_system(size: int) -> Tensor:
    """Box–Muller on 53 random bits each."""
    pairs = (size + 1) // 2
    drawn = torch.frombuffer(bytearray(os.urandom(16 * pairs)), dtype=torch.int64)
    uniform = ((drawn >> 11) & (2**53 - 1)).double().add(0.5).mul(2.0**-53).reshape(2, pairs)
    length, angle = (-2 * uniform[0].log()).sqrt(), 2 * math.pi * uniform[1]
    return torch.cat([length * angle.cos(), length * angle.sin()])[:size]
