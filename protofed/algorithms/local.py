"""Local: every client trains on its own data and talks to nobody. The reference to beat.

Nothing is averaged and nothing is sent:

    client  L = CE over its own samples
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..core.algorithm import Algorithm, View, carries_clients, methods
from ..core.data import Batch
from ..core.net import Net
from ..ops.losses import ce


@methods.register("local")
@dataclass(frozen=True)
class Local(Algorithm):
    """Cross-entropy on the client's own data; no communication."""

    @carries_clients
    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        return ce(net(batch.x)[1], batch.y)
