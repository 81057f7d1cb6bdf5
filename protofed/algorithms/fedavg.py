"""FedAvg: clients train the server's model on their data, the server averages the results.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017, arxiv.org/abs/1602.05629.

Clients start from the server's weights w and train by cross-entropy:

    client  L = CE
    server  w ← Σ_k (n_k / n) · w_k

Departures: none in the default. `weighting=uniform` is the average of FedProto's released code;
`eval_model=after_local` tests each client's model as it left its last training; `params_only` leaves
BatchNorm statistics private, as some reference code does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from ..core.algorithm import Ran, methods
from ..core.data import ClassCounts, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree, Weights
from ..core.task import Turn
from ..ops.sharing import SharedWeights


@methods.register("fedavg")
@dataclass(frozen=True)
class FedAvg(SharedWeights):
    """Average of the clients' weights."""

    weighting: str = option("samples", "weight of a client in the average", choices=("samples", "uniform"))
    eval_model: str = option("global", "model that is tested", choices=("global", "after_local"))
    tolerate: bool = option(False, "use the partial work of stragglers instead of dropping them")

    paper = "McMahan et al., AISTATS 2017, arXiv:1602.05629"

    @property
    def keep(self) -> tuple[str, ...]:
        return ("",) if self.eval_model == "after_local" else super().keep

    @property
    def partial(self) -> str:
        return "use" if self.tolerate else "drop"

    # server

    def weight(self, samples: int) -> float:
        return samples if self.weighting == "samples" else 1

    def client_weights(self, state: Weights, samples: Mapping[int, int]) -> dict[int, float]:
        total = max(1, sum(map(self.weight, samples.values())))
        return {client: self.weight(n) / total for client, n in samples.items()}

    # client

    def load(self, tensors: Tree, down: Weights, turn: Turn) -> Tree:
        if turn.leg == "eval" and self.eval_model == "after_local":
            return tensors
        return {**tensors, **down.weights}

    def upload(
        self, net: Net, data: LocalData, down: Weights, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Record, Tree]:
        if self.eval_model == "after_local":
            mem = {"trained": turn.task.zeros("", int) + 1}
        return super().upload(net, data, down, mem, ran, turn)

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Weights, mem: Tree) -> dict[str, Tensor]:
        """A client that never took part has no model of its own yet: it is tested with the server's."""
        if self.eval_model == "after_local" and "trained" not in mem:
            net = net.at({**net.tensors(), **down.weights})
        return {"clf": net(x)[1]}
