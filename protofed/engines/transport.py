"""How messages travel on the Flower engine and in deployments: time, quorum, limits, precision."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ..core.errors import ConfigError
from ..core.options import option


@dataclass(frozen=True)
class Transport:
    """Settings of the Flower engine and of deployments; no other engine has messages."""

    round_timeout: float = option(600.0, "flower: seconds to wait for the replies of a leg", above=0)
    min_clients: int = option(1, "flower: fewest accepted replies for a leg to count", low=1)
    too_few: str = option("repeat", "flower: a leg with too few replies", choices=("repeat", "skip"))
    repeats: int = option(2, "flower: how often such a leg is repeated before it is skipped", low=0)
    repeat_pause: float = option(10.0, "flower: seconds from one attempt to the next at least", low=0)
    max_norm: float = option(1e6, "flower: largest Euclidean norm of one uploaded array", above=0)
    upload: str = option(
        "full", "flower: precision of uploads; fp16 and int8 lose some", choices=("full", "fp16", "int8")
    )

    @property
    def changed(self) -> dict[str, Any]:
        """What is not as by default."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}

    def check_used(self, engine: str) -> None:
        """Refuse settings that would do nothing: between the clients of other engines no message travels."""
        if engine != "flower" and self.changed:
            said = ", ".join(f"{name}: {value}" for name, value in self.changed.items())
            raise ConfigError(
                f"{said} has no effect on the engine {engine}, which sends no messages; choose the engine "
                "flower (or a deployment), or leave it out"
            )

    def check_quorum(self, participants: int) -> None:
        """A quorum that no round can reach is a mistake, found before the first round."""
        if self.min_clients > participants:
            raise ConfigError(
                f"min_clients: {self.min_clients} replies are needed, but only {participants} clients take "
                "part in a round; lower it"
            )
