"""How far a long analysis is, told to whoever waits for it."""

from __future__ import annotations


class Watch:
    """Tells nobody. The command line has one that draws a bar (`PartProgress`)."""

    def begin(self, what: str, total: int) -> None:
        """A part begins that takes so many steps."""

    def step(self, count: int = 1) -> None:
        """So many more of them are done."""


NOBODY = Watch()
