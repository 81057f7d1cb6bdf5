"""What is told of secure sums: in each round's record, and as warnings when there is something new to say."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ..core.task import Task
from .secure_layout import Layout
from .secure_spread import Summed

SHOWN = 12  # classes in a warning
log = logging.getLogger("protofed")


class Account:
    """Remembers what was said: the same classes are withheld round after round."""

    def __init__(self, task: Task):
        self.task = task
        self._said: list[int] = []

    def of(
        self, layout: Layout, summed: Summed, rows: Mapping[int, Any], clients: int, lost: int
    ) -> dict[str, Any]:
        """The record of a sum of so many clients; `rows` are of the classes that were opened."""
        clipped, bound = summed.figures["clipped"], layout.scale.bound
        withheld = [c for c in range(layout.classes) if summed.holders[c] and c not in rows]
        if clipped:
            log.warning("secure: %d values beyond ±%g were clipped (secure_bound)", clipped, bound)
        if withheld and withheld != self._said:
            log.warning("secure: %s: too few clients hold them (secure_holders)", self._named(withheld, rows))
        self._said = withheld
        return {"clients": clients, "lost": lost, "withheld": withheld, "clipped": clipped}

    def _named(self, withheld: list[int], rows: Mapping[int, Any]) -> str:
        if not rows:
            return "all classes are withheld"
        names = self.task.class_names or [str(c) for c in range(self.task.C)]
        listed = ", ".join(names[c] for c in withheld[:SHOWN]) + (", …" if len(withheld) > SHOWN else "")
        return f"{len(withheld)} of {len(withheld) + len(rows)} classes are withheld ({listed})"
