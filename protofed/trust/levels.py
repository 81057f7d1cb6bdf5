"""Differential privacy as a setting, `--dp LEVEL:noise=…`: what counts as one unit, and how much noise.

Neighbours are two runs that differ in one unit's contribution, which is nothing in one of them: all that a
client sends (`client`), or all that one training sample adds (`example`). So who takes part in a round, and
at example level how many samples a client has, is no secret; sums have the sensitivity of one contribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..core.errors import ConfigError
from ..core.options import option
from ..core.private import PrivateSteps
from ..core.registry import Registry
from .accounting import check_installed, epsilon


def _multiplier() -> Any:
    return field(metadata={"help": "z, deviation of the noise over the sensitivity", "above": 0})


@dataclass(frozen=True)
class Level:
    """What both levels have in common."""

    name: ClassVar[str]
    units: ClassVar[str]  # what is hidden, in the plural

    noise: float = _multiplier()
    delta: float = option(1e-5, "δ, below 1 over the number of units", above=0, below=1)

    @property
    def title(self) -> str:
        """As every output names it."""
        return f"{self.name}-level"

    def epsilon(self, releases: int) -> float:
        """ε after so many releases to which one unit contributes."""
        return epsilon(self.noise, releases, self.delta)

    def check(self, units: int) -> None:
        """ConfigError for a δ that lets one of so many units be told outright."""
        if self.delta * units >= 1:
            raise ConfigError(
                f"dp {self.name}: delta={self.delta:g} is not below 1/{units} ({units} {self.units}): "
                "telling one of them outright would be allowed; give a smaller delta"
            )


levels: Registry[Level] = Registry("privacy level", Level)


@levels.register("client")
@dataclass(frozen=True)
class ClientLevel(Level):
    """Hides whether a client took part: its upload is shortened, and the server adds noise to the sum."""

    units = "clients"

    clip: float = option(1.0, "B, largest length of what one client adds", above=0)
    weight: float = option(1.0, "w, weight of counts beside sums of embeddings", above=0)


@levels.register("example")
@dataclass(frozen=True)
class ExampleLevel(Level):
    """Hides single training samples: noise in added sums of fixed features, or in every local step."""

    units = "training samples"

    clip: float | None = option(None, "largest gradient of one sample (default 1), in local steps", above=0)
    radius: float = option(1.0, "R, largest length of an embedding in prototypes", above=0)
    weight: float = option(1.0, "w, weight of counts beside sums of embeddings", above=0)

    @property
    def steps(self) -> PrivateSteps:
        """Noise in local training."""
        return PrivateSteps(self.noise, self.clip or 1.0, self.radius)

    @property
    def embedding_bound(self) -> float:
        """By how much one sample moves class sums and weighted counts: √(R² + w²)."""
        return math.hypot(self.radius, self.weight)


def make_level(written: str) -> Level:
    """The level of the setting `dp`."""
    made = levels.make(written)
    check_installed()
    return made
