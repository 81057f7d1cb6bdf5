"""Attacks of clients that know what the honest ones send, class by class where uploads have rows of
classes.

alie  Baruch et al., "A Little Is Enough", NeurIPS 2019: mean − z · standard deviation of the honest uploads,
      where z is the largest that still has enough honest uploads farther away than the attackers' own:
      z = Φ⁻¹((n − f − s) / (n − f)),  s = ⌊n/2 + 1⌋ − f
ipm   Xie et al., "Fall of Empires", UAI 2019: −ε · mean of the honest uploads
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from statistics import NormalDist

from torch import Tensor

from ...core.answer import Reply
from ...core.averages import Averaged
from ...core.options import option
from ..gathering import Gathered, field_rows, put_values
from ..rows import Rows
from ._base import Attack, Sight, attacks

LEAST_Z = 0.3  # where the formula gives nothing: few clients


@dataclass(frozen=True)
class Colluding(Attack):
    """Base: attackers send one value, made of the honest uploads."""

    colluding = True

    @abstractmethod
    def value(self, rows: Rows, sight: Sight) -> Tensor:
        """What to send [G, D], given the honest rows of each group."""

    def upload(self, reply: Reply, sight: Sight) -> Reply:
        for averaged in sight.fields if sight.honest else ():
            found = sight.once(averaged, lambda a=averaged: self._found(a, sight))  # type: ignore[misc]
            if found is not None:
                reply = put_values(reply, averaged, *found)
        return reply

    def _found(self, averaged: Averaged, sight: Sight) -> tuple[Gathered, Tensor] | None:
        honest = field_rows(sight.honest, averaged, sight.down, sight.task.C)
        return None if honest is None else (honest, self.value(honest.rows, sight))


@attacks.register("alie")
@dataclass(frozen=True)
class Alie(Colluding):
    """A little is enough: mean − z · deviation of the honest uploads."""

    z: float | None = option(None, "z; none: from the numbers of clients and attackers", above=0)

    def value(self, rows: Rows, sight: Sight) -> Tensor:
        z = self.z or hidden_z(len(sight.honest) + len(sight.attacking), len(sight.attacking))
        even = rows._replace(w=rows.there.double())
        mean = even.mean()
        spread = even.mean((rows.x - mean[:, None]).square()).sqrt()
        return mean - z * spread


@attacks.register("ipm")
@dataclass(frozen=True)
class Ipm(Colluding):
    """Inner-product manipulation: −ε times the mean of the honest uploads."""

    epsilon: float = option(0.5, "ε", above=0)

    def value(self, rows: Rows, sight: Sight) -> Tensor:
        return -self.epsilon * rows._replace(w=rows.there.double()).mean()


def hidden_z(clients: int, attackers: int) -> float:
    """z of "a little is enough".

    >>> round(hidden_z(50, 12), 4)
    0.336
    """
    honest = clients - attackers
    supporters = clients // 2 + 1 - attackers
    share = (honest - supporters) / honest if honest else 0.0
    return max(LEAST_Z, NormalDist().inv_cdf(share)) if 0 < share < 1 else LEAST_Z
