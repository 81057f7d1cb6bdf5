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

from ..core.algorithm import Algorithm, Leg, Needs, Ran, View, methods
from ..core.data import Batch, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Replies, Tree, Weights
from ..core.task import Task, Turn
from ..ops.losses import ce
from ..ops.trees import Average


@methods.register("fedavg")
@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Average of the clients' weights."""

    weighting: str = option("samples", "weight of a client in the average", choices=("samples", "uniform"))
    eval_model: str = option("global", "model that is tested", choices=("global", "after_local"))
    params_only: bool = option(False, "keep BatchNorm statistics private instead of averaging them")
    tolerate: bool = option(False, "use the partial work of stragglers instead of dropping them")

    paper = "McMahan et al., AISTATS 2017, arXiv:1602.05629"
    needs = Needs(model=True)
    legs = (Leg(down=Weights, up=Weights),)

    @property
    def keep(self) -> tuple[str, ...]:
        if self.eval_model == "after_local":
            return ("",)
        return ("buffers",) if self.params_only else ()

    @property
    def partial(self) -> str:
        return "use" if self.tolerate else "drop"

    # server

    def init(self, task: Task, turn: Turn) -> Weights:
        return Weights(self._shared(task.fresh(0), task))

    def broadcast(self, state: Weights, turn: Turn) -> Weights:
        return state

    def aggregate(self, state: Weights, replies: Replies, turn: Turn) -> Weights:
        average = Average()
        for reply in replies:
            average.add(reply.up.weights, self._weight(reply.n), reply.client)
        return Weights(average.result())

    def _weight(self, samples: int) -> int:
        return samples if self.weighting == "samples" else 1

    def client_weights(self, state: Weights, samples: Mapping[int, int]) -> dict[int, float]:
        """Shares of the round's participants in the average."""
        total = max(1, sum(map(self._weight, samples.values())))
        return {client: self._weight(n) / total for client, n in samples.items()}

    # client

    def load(self, tensors: Tree, down: Weights, turn: Turn) -> Tree:
        if turn.leg == "eval" and self.eval_model == "after_local":
            return tensors
        return {**tensors, **down.weights}

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        return ce(net(batch.x)[1], batch.y)

    def upload(
        self, net: Net, data: LocalData, down: Weights, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Weights, Tree]:
        if self.eval_model == "after_local":
            mem = {"trained": turn.task.zeros("", int) + 1}
        return Weights(self._shared(net.tensors(), turn.task)), mem

    def predict(self, net: Net, x: Tensor, data: LocalData, down: Weights, mem: Tree) -> dict[str, Tensor]:
        """A client that never took part has no model of its own yet: it is tested with the server's."""
        if self.eval_model == "after_local" and "trained" not in mem:
            net = net.at({**net.tensors(), **down.weights})
        return {"clf": net(x)[1]}

    def _shared(self, tensors: Tree, task: Task) -> Tree:
        private = task.names(0).buffers if self.params_only else frozenset()
        return {name: tensor for name, tensor in tensors.items() if name not in private}
