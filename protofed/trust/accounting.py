"""How much privacy noise has cost: ε of Gaussian noise that was added again and again, by dp-accounting.

Noise of multiplier z (its deviation over the sensitivity) added t times, each time to a sum that may depend
on all that was released before, costs exactly as much as noise of multiplier z/√t added once: μ = √t / z.
"""

from __future__ import annotations

import math
from functools import lru_cache

from ..core.errors import ConfigError

EXACT = 2.5  # μ up to which the loss is composed numerically (ε of about 14); beyond, by the Rényi bound


def check_installed() -> None:
    """ConfigError without the library that does the accounting."""
    try:
        import dp_accounting  # noqa: F401
    except ImportError as error:
        raise ConfigError("dp: needs dp-accounting: pip install 'protofed[privacy]'") from error


@lru_cache(maxsize=4096)
def epsilon(noise: float, releases: int, delta: float) -> float:
    """ε at δ of so many releases with noise of this multiplier: never too small.

    >>> round(epsilon(4.84, 20, 1e-5), 2)
    4.0
    """
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    if releases < 1:
        return 0.0
    mu = math.sqrt(releases) / noise
    accountant = PLDAccountant() if mu <= EXACT else RdpAccountant()
    accountant.compose(GaussianDpEvent(1 / mu))
    return float(accountant.get_epsilon(delta))
