"""Frame of the closed-form family: one linear head for all clients, solved from their sums.

Nothing is trained, and the clients' own models take no part. Round 1 brings the sums, round 2 the head;
nothing is sent afterwards, and all later rounds are idle. A method says how its head follows from the sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.algorithm import Leg
from ..core.data import ClassCounts, LocalData
from ..core.net import Net
from ..core.record import Record, Tree
from .moments import LinearHead, Moments, square_of
from .pooled import ADDED, PLAIN, Pool, PooledSums, Sums, scale_of
from .prototypes import owned, table


class SentHead(Record):
    """The head's rows for the classes that are known, to clients that hold an older one; else no rows."""

    weight: Float[Tensor, "J M"]
    bias: Float[Tensor, "J"]
    cls: Int[Tensor, "J"]
    scale: Float[Tensor, "S X"]
    version: Int[Tensor, "V"]


@dataclass(frozen=True)
class ClosedForm(PooledSums):
    """Sums up, head down, once each."""

    modes = ("clf", "gp_local")
    legs = (Leg(down=SentHead, up=Sums, averages=ADDED, plain=PLAIN, phases=()),)

    def solve(self, m: Moments, state: Pool) -> tuple[Tensor, Tensor]:
        """Weight [C, M] and bias [C] from the totals."""
        raise NotImplementedError

    # server

    def solved(self, state: Pool) -> Tree:
        gram = square_of(state.gram[0]) if len(state.gram) else state.sums.new_zeros(0, 0)
        weight, bias = self.solve(Moments(gram, state.sums, state.n.double()), state)
        return {"weight": weight, "bias": bias}

    def publish(self, state: Pool, dtype: torch.dtype) -> SentHead:
        if not state.head:
            none = state.n[:0]
            return SentHead(state.sums[:0].to(dtype), none.to(dtype), none, state.scale, state.version)
        weight, cls, _ = owned(state.head["weight"], state.n)
        return SentHead(weight.to(dtype), state.head["bias"][cls].to(dtype), cls, state.scale, state.version)

    # client

    def learned(
        self, net: Net, data: LocalData | ClassCounts, down: SentHead, mem: Tree, classes: int
    ) -> Tree:
        found: Tree = {"scale": down.scale} if len(down.scale) else {}
        if not len(down.cls):
            return found | ({"version": down.version} if len(down.scale) else {})
        return found | _named(down, classes) | {"version": down.version}

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: SentHead, mem: Tree) -> dict[str, Tensor]:
        """Scores of the head; of the untrained model as long as there is none."""
        logits = net(x)[1]
        classes = logits.shape[1]
        mem = {**mem, **_named(down, classes)} if len(down.cls) else mem
        if "weight" not in mem:
            return dict.fromkeys(self.modes, logits)
        head = LinearHead(mem["weight"], mem["bias"], mem["known"])
        scores = head.scores(net["phi"](x, scale_of(down, mem)))
        return {"clf": scores, "gp_local": scores.masked_fill(~data.present(classes), float("-inf"))}


def _named(down: SentHead, classes: int) -> Tree:
    """The head's rows as tables of all classes."""
    weight, known = table(down.weight, down.cls, classes)
    return {"weight": weight, "bias": table(down.bias[:, None], down.cls, classes)[0][:, 0], "known": known}
