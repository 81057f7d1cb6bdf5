"""FedProx: FedAvg with a term that holds local weights near the received ones.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, arxiv.org/abs/1812.06127.

The term covers all parameters; w^t are the weights as received. The server averages by sample counts and
uses the partial work of stragglers.

    client  L = CE + (μ/2) · ‖w − w^t‖²
    server  w^{t+1} = Σ_k (n_k / n) · w_k

μ depends on the data: the FedProto papers do not print theirs, ProtoMargin's are the presets
`synthetic`, `mnist`, `femnist` and `celeba`.

Departures: none. (A baseline helper published with FedProto compares detached weights, so that its
term has no gradient; that is not imitated.)
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..core.algorithm import Preset, View, methods
from ..core.data import Batch, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Tree, Weights
from ..core.task import Turn
from ..ops.losses import ce
from ..ops.sharing import SharedWeights
from ..ops.trees import squared_distance


@methods.register("fedprox")
@dataclass(frozen=True)
class FedProx(SharedWeights):
    """FedAvg with a proximal term; tolerates partial work."""

    mu: float = option(0.01, "μ, weight of the proximal term", low=0)

    paper = "Li et al., MLSys 2020, arXiv:1812.06127"
    presets = {
        "paper": Preset({"mu": 0.01}),
        "synthetic": Preset({"mu": 0.1}, note="μ of the ProtoMargin paper on synthetic data"),
        "mnist": Preset({"mu": 1.0}, note="μ of the ProtoMargin paper on MNIST"),
        "femnist": Preset({"mu": 1.0}, note="μ of the ProtoMargin paper on FEMNIST"),
        "celeba": Preset({"mu": 0.01}, note="μ of the ProtoMargin paper on CelebA"),
    }

    def prepare(self, net: Net, data: LocalData, down: Weights, mem: Tree, turn: Turn) -> View:
        return {"received": {name: down.weights[name] for name in net.parameters()}}

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        pull = squared_distance(net.parameters(), view["received"])
        return ce(net(batch.x)[1], batch.y) + 0.5 * self.mu * pull
