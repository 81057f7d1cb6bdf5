"""Ditto: beside the shared model, each client trains a model of its own that stays near it.

Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", ICML 2021,
arxiv.org/abs/2012.04221.

The shared model w is that of FedAvg. Each participant also trains a model v of its own (Algorithm 1),
which is what predicts. The shared model's accuracy is listed as `global`.

    client  w_k from w^t by CE;  v_k by L = CE + (λ/2) · ‖v − w^t‖²
    server  w^{t+1} = Σ_k (n_k / n) · w_k

Departures: own models start as the setting `init` says; the preset asks for the common start, v = w⁰.
The average is by sample counts. Own models train for the run's epochs unless `e_own` is given.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from ..core.algorithm import Leg, Phase, Preset, View, methods
from ..core.data import Batch, ClassCounts, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Tree, Weights
from ..core.task import Task, Turn
from ..ops.losses import ce
from ..ops.sharing import SharedWeights
from ..ops.trees import put, squared_distance, under


@methods.register("ditto")
@dataclass(frozen=True)
class Ditto(SharedWeights):
    """FedAvg, and own models held near the shared one."""

    lam: float = option(0.1, "λ, weight of the distance from the shared model", low=0)
    e_own: int | None = option(None, "epochs of the own model; default: the run's epochs", low=0)

    paper = "Li et al., ICML 2021, arXiv:2012.04221"
    modes = ("clf", "global")
    private = ("model.",)
    presets = dict.fromkeys(
        ("default", "paper"), Preset(train={"init": "common"}, note="own models start from the shared one")
    )

    @property
    def legs(self) -> tuple[Leg, ...]:
        phases = (Phase(("shared.",)), Phase(("model.",), epochs=self.e_own, loss="own_loss"))
        return (Leg(down=Weights, up=Weights, phases=phases, averages=self.averages),)

    def modules(self, task: Task, group: int) -> dict[str, nn.Module]:
        return {"shared": task.groups[group].build()}

    # server

    def init(self, task: Task, turn: Turn) -> Weights:
        first = put("shared.", under("model.", task.fresh(0)))
        return Weights(self.shared(first, task, 0))

    # client

    def prepare(self, net: Net, data: LocalData, down: Weights, mem: Tree, turn: Turn) -> View:
        received = put("model.", under("shared.", down.weights))
        return {"received": {name: received[name] for name in net.parameters("model.")}}

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        return ce(net["shared"](batch.x)[1], batch.y)

    def own_loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        """The objective h_k of Algorithm 1."""
        pull = squared_distance(net.parameters("model."), view["received"])
        return ce(net(batch.x)[1], batch.y) + 0.5 * self.lam * pull

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Weights, mem: Tree) -> dict[str, Tensor]:
        return {"clf": net(x)[1], "global": net["shared"](x)[1]}
