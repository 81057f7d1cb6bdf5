"""The settings of a run that have to do with trust."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.options import option


@dataclass(frozen=True)
class Trust:
    """Attackers in the simulation, and what the server does against them and for privacy."""

    attack: str | None = option(None, "clients that attack: NAME:share=0.3,…")
    robust: str | None = option(None, "average of the server that withstands attackers: NAME, or NAME:…")
    dp: str | None = option(None, "differential privacy: client:noise=4.84,clip=1,delta=1e-5, or example:…")
    max_epsilon: float | None = option(None, "end the run before its privacy loss ε exceeds this", above=0)
    secure: bool = option(False, "secure sums: the server sees the sum of the uploads, none of them alone")
    secure_threshold: int | None = option(
        None, "secure: clients that must take part to the end (default: two thirds of those who begin)", low=2
    )
    secure_holders: int = option(3, "secure: fewest clients in a sum, and fewest holders of a class", low=2)
    secure_bound: float = option(
        100.0, "secure: largest absolute value of an upload; beyond, clipped", above=0
    )
    secure_step: float = option(1e-4, "secure: values are rounded to multiples of this", above=0)
