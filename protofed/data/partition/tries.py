"""Draw until every client has enough, but not for ever."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.errors import DataError


def draw_until(
    draw: Callable[[], np.ndarray], minimum: int, tries: int, clients: int, rows: int, where: str
) -> np.ndarray:
    """The first draw [K, …] of sizes in which every client has `minimum` rows; else DataError."""
    if minimum * clients > rows:
        raise DataError(
            f"{where}: {clients} clients with at least {minimum} rows each need {minimum * clients}, "
            f"there are {rows}; use fewer clients or a lower minimum"
        )
    best = 0
    for _ in range(tries):
        sizes = draw()
        smallest = int(sizes.reshape(clients, -1).sum(axis=1).min())
        if smallest >= minimum:
            return sizes
        best = max(best, smallest)
    raise DataError(
        f"{where}: in {tries} tries the smallest client never had more than {best} rows, {minimum} are "
        "asked for; lower minimum, use fewer clients or milder skew"
    )
