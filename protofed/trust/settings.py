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
