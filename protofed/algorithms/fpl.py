"""FPL: the server clusters class prototypes, so that several per class stand for the clients' domains.

Huang, Ye, Shi, Li and Du, "Rethinking Federated Learning with Domain Shift: A Prototype View",
CVPR 2023.

Clients upload their model and one mean embedding per class; per class the server clusters the means
with FINCH. A client contrasts each embedding z with all cluster prototypes G_j (L_cp) and pulls it to the
"unbiased" prototype U^y, the plain mean of the clusters of its class (L_up).

    client  L = CE + L_cp + L_up
            L_cp = −log( Σ_{j of class y} e^{cos(z, G_j)/τ} / Σ_j e^{cos(z, G_j)/τ} )
            L_up = ‖z − U^y‖²
    server  w ← Σ_k (n_k / n) · w_k,   G^c = FINCH(uploaded means of class c)

Departures:
- L_up sums over the dimensions as the paper's norm does; the released code takes their mean
  (`pull=mean`) and collects prototypes while training in the last epoch (`proto_pass=running`), and a
  class that nobody uploads disappears (`stale=drop`): preset `official`.
- The default, sums and prototypes after training, can diverge in the first rounds of nets with
  BatchNorm: their embeddings change scale between training and eval mode while the statistics settle,
  and the sum over 512 dimensions weighs that heavily. On Digit-5 with ResNet10 it did; either half of
  `official` cures it.
- FINCH with three or fewer uploads of a class gives one cluster: then G^c is the class mean.
- A sample whose class has no prototype adds 0 to both terms and counts in the batch mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from jaxtyping import Float, Int
from torch import Tensor

from ..core.algorithm import Algorithm, Leg, Needs, Preset, Ran, View, methods
from ..core.data import Batch, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Replies, Tree
from ..core.task import Task, Turn
from ..ops.contrast import centres, contrast, pooled, renew, same_class
from ..ops.distances import cosine
from ..ops.finch import FinchOptions, finch_by_class
from ..ops.losses import ce, sample_pull
from ..ops.prototypes import class_means, class_sums, means, owned, rows

TRAIN = MappingProxyType({"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-5, "batch_size": 64, "epochs": 10})


class Protos(Record):
    """Down, up and server state: the model, and prototypes with their classes."""

    weights: Tree
    mean: Float[Tensor, "J D"]
    cls: Int[Tensor, "J"]


@methods.register("fpl")
@dataclass(frozen=True)
class FPL(Algorithm):
    """Cluster prototypes and unbiased prototypes for clients from different domains."""

    tau: float = option(0.02, "τ, temperature of the contrast", above=0)
    pull: str = option("sum", "L_up over the dimensions: sum, or mean", choices=("sum", "mean"))
    proto_pass: str = option(
        "post", "when prototypes are taken: after training, or in its last epoch", choices=("post", "running")
    )
    metric: str = option("cosine", "distance of FINCH", choices=("cosine", "euclidean"))
    level: str = option("last", "partition of FINCH", choices=("last", "first"))
    weighting: str = option("samples", "weight of a client's model", choices=("samples", "uniform"))
    stale: str = option("keep", "prototypes of a class absent this round", choices=("keep", "drop"))

    paper = "Huang et al., CVPR 2023"
    needs = Needs(model=True, embedding=True)
    legs = (Leg(down=Protos, up=Protos),)
    keep = ()
    presets = {
        "paper": Preset({}, TRAIN, "as printed; 100 rounds"),
        "official": Preset(
            {"pull": "mean", "proto_pass": "running", "stale": "drop"},
            TRAIN,
            "the authors' released code",
        ),
    }

    @property
    def _finch(self) -> FinchOptions:
        return {"metric": self.metric, "level": self.level}  # type: ignore[typeddict-item]

    # server

    def init(self, task: Task, turn: Turn) -> Protos:
        return Protos(task.fresh(0), task.zeros("0 D"), task.zeros("0", int))

    def broadcast(self, state: Protos, turn: Turn) -> Protos:
        return state

    def aggregate(self, state: Protos, replies: Replies, turn: Turn) -> Protos:
        weights, _, (mean, cls) = pooled(replies, self.weighting, "mean", "cls")
        mean, cls, _ = finch_by_class(mean, cls, **self._finch)
        cls, mean = renew(self.stale, (state.cls, state.mean), (cls, mean))
        return Protos(weights, mean, cls)

    # client

    def prepare(self, net: Net, data: LocalData, down: Protos, mem: Tree, turn: Turn) -> View:
        unbiased, known = centres(down.mean, down.cls, turn.task.C)
        return {"mean": down.mean, "cls": down.cls, "unbiased": unbiased, "known": known}

    def loss(self, net: Net, batch: Batch, view: View) -> tuple[Tensor, dict[str, Tensor]]:
        """CE + L_cp + L_up; CE alone while there are no prototypes."""
        z, logits = net(batch.x)
        loss = ce(logits, batch.y)
        if view["mean"].shape[0]:
            flat, y = rows(z, batch.y)
            scores = cosine(flat, view["mean"]) / self.tau
            valid = (y >= 0).sum().clamp(min=1)  # void positions of dense labels do not count
            contrasted = contrast(scores, same_class(y, view["cls"])).sum() / valid
            distance = "l2sq" if self.pull == "sum" else "mse"
            loss = loss + contrasted + sample_pull(z, batch, view["unbiased"], view["known"], distance)
        return loss, self._running(z, batch, view["known"].shape[0])

    def _running(self, z: Tensor, batch: Batch, num_classes: int) -> dict[str, Tensor]:
        if self.proto_pass == "post":
            return {}
        sums, count = class_sums(z.detach(), batch.y, num_classes)
        return {"z": sums * batch.last, "n": count * batch.last}

    def upload(
        self, net: Net, data: LocalData, down: Protos, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Protos, Tree]:
        if "z" in ran.sums:
            mean, n = means(ran.sums["z"], ran.sums["n"]), ran.sums["n"]
        else:  # the default; and a client that made no step has nothing collected
            mean, n = class_means(net, data, turn.task.C)
        mean, cls, _ = owned(mean, n)
        return Protos(net.tensors(), mean, cls), mem

    # analysis

    def prototypes(self, state: Protos) -> tuple[Tensor, Tensor]:
        return state.mean, state.cls
