"""What an upload must look like: the method's own `upload`, carried out once at the server, untrained, on
two samples. Its values mean nothing, but its names, shapes and dtypes are those of every client of the group.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..core.algorithm import Leg
from ..core.client import begin, finish
from ..core.data import LocalData
from ..core.record import Record, Tree
from ..core.task import Turn

SAMPLES = 2
log = logging.getLogger("protofed")


class Expected:
    """Reference uploads by group and leg. `sample` gives two samples as a client would have them."""

    def __init__(self, sample: Callable[[int], LocalData]):
        self._sample = sample
        self._known: dict[tuple[int, str], Tree | None] = {}

    def upload(self, turn: Turn, leg: Leg, down: Record) -> Tree | None:
        """The arrays of a reference upload; None where the method cannot be carried out so."""
        key = (turn.group, leg.name)
        if key not in self._known:
            self._known[key] = self._carry_out(turn, leg, down)
        return self._known[key]

    def _carry_out(self, turn: Turn, leg: Leg, down: Record) -> Tree | None:
        assert turn.client is not None
        try:
            session = begin(turn, leg, None, self._sample(turn.client), down)
            return finish(session, turn.task.live(turn.group)).up.arrays()
        except Exception as error:  # of a method's own code: uploads then are checked for less
            name = turn.task.algorithm.name
            log.warning("%s: names and dtypes of uploads are not checked: %r", name, error)
            return None
