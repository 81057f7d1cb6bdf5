"""FedAvg with local fine-tuning: one model for all, which every client then trains on its own samples.

McMahan et al., AISTATS 2017, arxiv.org/abs/1602.05629, for the model; fine-tuning it at each client is
the plainest personalised method, and hard to beat: Wang et al., "Federated Evaluation of On-device
Personalization", 2019, arxiv.org/abs/1910.10252.

    server  w = Σ_k (n_k / n) w_k
    test    `clf`: w_k, the client's own model after its last local training, which began at w; `global`: w

Choices:
- What a client trained in the round is the fine-tuned model of the round before: no pass is made twice, and
  the fine-tuning is as long as local training. A client that never took part is tested with w.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..core.algorithm import Ran, methods
from ..core.data import ClassCounts, LocalData
from ..core.net import Net
from ..core.record import Record, Tree, Weights
from ..core.task import Turn
from ..ops.sharing import SharedWeights


@methods.register("fedavg_ft")
@dataclass(frozen=True)
class FedAvgFT(SharedWeights):
    """Average of the clients' weights, fine-tuned by each client."""

    paper = "McMahan et al., AISTATS 2017; fine-tuning: Wang et al., arXiv:1910.10252"
    modes = ("clf", "global")
    keep = ("",)

    # client

    def load(self, tensors: Tree, down: Weights, turn: Turn) -> Tree:
        return tensors if turn.leg == "eval" else {**tensors, **down.weights}

    def upload(
        self, net: Net, data: LocalData, down: Weights, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Record, Tree]:
        up, _ = super().upload(net, data, down, mem, ran, turn)
        return up, {"trained": turn.task.zeros("", int) + 1}

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Weights, mem: Tree) -> dict[str, Tensor]:
        common = net.at({**net.tensors(), **down.weights})(x)[1]
        return {"clf": net(x)[1] if mem else common, "global": common}
