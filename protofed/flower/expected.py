"""What an upload must look like: the method's own `upload`, carried out once at the server, untrained, on
two samples. Its values mean nothing, but its names, shapes and dtypes are those of every client of the group.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..core.client import begin, finish
from ..core.data import LocalData
from ..core.record import Tree
from ..core.task import ClientTurn
from ..engines.base import Job

SAMPLES = 2
log = logging.getLogger("protofed")


class Expected:
    """Reference uploads by group and leg. `sample` gives two samples as a client would have them."""

    def __init__(self, sample: Callable[[int], LocalData]):
        self._sample = sample
        self._known: dict[tuple[int, str], Tree | None] = {}

    def learn(self, job: Job) -> None:
        """See to it that the reference upload of this job's group and leg is known."""
        key = (job.turn.group, job.turn.leg)
        if key not in self._known:
            self._known[key] = self._carry_out(job)

    def known(self, turn: ClientTurn) -> Tree | None:
        """The arrays of a reference upload; None where the method cannot be carried out so."""
        return self._known.get((turn.group, turn.leg))

    def _carry_out(self, job: Job) -> Tree | None:
        turn = job.turn
        try:
            session = begin(turn, job.leg, None, self._sample(turn.client), job.down)
            return dict(finish(session, turn.task.live(turn.group)).up.arrays())
        except Exception as error:  # of a method's own code: uploads then are checked for less
            name = turn.task.algorithm.name
            log.warning("%s: names and dtypes of uploads are not checked: %r", name, error)
            return None
