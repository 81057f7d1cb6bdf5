"""Settings of secure sums as server and clients use them, and why a run cannot have them."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple

from ..core.algorithm import Algorithm
from ..core.errors import ConfigError, EngineError
from .secure_layout import Scale, bits_for
from .settings import Trust


class Secure(NamedTuple):
    """What must hold of a sum."""

    threshold: int | None  # clients that take part to its end; None: two thirds of those who begin
    holders: int  # clients in a sum, and holders of a class, at least
    bound: float
    step: float

    def scale(self, weight: float, clients: int) -> Scale:
        """For clients whose weights add up to `weight`."""
        return Scale(self.bound, self.step, bits_for(self.bound, self.step, weight, clients), clients)


def secure_of(trust: Trust) -> Secure:
    """The settings of secure sums."""
    return Secure(trust.secure_threshold, trust.secure_holders, trust.secure_bound, trust.secure_step)


def check_secure(trust: Trust, algorithm: Algorithm, participants: int) -> None:
    """ConfigError where secure sums cannot be, or would hide nothing; before training."""
    if algorithm.single:
        raise ConfigError(
            f"secure: {algorithm.name} {algorithm.single}, so a sum is not enough for its server; leave "
            "secure out, or choose a method whose server averages, such as fedproto or fedavg"
        )
    if trust.robust is not None:
        raise ConfigError(
            "secure and robust exclude each other: a robust average compares single uploads, which secure "
            "sums hide from the server; leave one of them out"
        )
    if (trust.dp or "").startswith("client"):
        raise ConfigError(
            "secure and dp client: the server would have to shorten single uploads, which secure sums hide "
            "from it; leave one of them out"
        )
    needed = max(trust.secure_holders, trust.secure_threshold or 0)
    if participants < needed:
        raise ConfigError(
            f"secure: {participants} clients take part in a round; secure_holders {trust.secure_holders} and "
            f"secure_threshold {trust.secure_threshold or 'two thirds'} ask for at least {needed}"
        )
    if importlib.util.find_spec("flwr") is None or importlib.util.find_spec("cryptography") is None:
        raise EngineError("secure sums need Flower and cryptography: pip install 'protofed[deploy]'")
