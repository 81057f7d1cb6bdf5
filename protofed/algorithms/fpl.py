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
- L_up is the mean over the dimensions, as in the released code, so that its weight does not grow with
  the embedding; the paper's norm sums (`pull=sum`). τ is 0.07, as in FedPLVM and FedPLCC; the printed
  0.02 multiplies gradients by 50, and on few images the loss overflows. Preset `paper` has both as printed.
- The released code collects prototypes while training in the last epoch (`proto_pass=running`), and a
  class that nobody uploads disappears (`stale=drop`): preset `official`.
- Sums and prototypes after training (preset `paper`) can diverge in the first rounds of nets with
  BatchNorm: their embeddings change scale between training and eval mode while the statistics settle,
  and the sum over 512 dimensions weighs that heavily. On Digit-5 with ResNet10 it did; either half of
  `official` cures it.
- FINCH with three or fewer uploads of a class gives one cluster: then G^c is the class mean.
- A sample whose class has no prototype adds 0 to both terms and counts in the batch mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from torch import Tensor

from ..core.algorithm import Preset, Ran, View, methods
from ..core.answer import Replies
from ..core.data import Batch, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Tree
from ..core.task import Turn
from ..ops.clusters import Clustered, ClusteredPrototypes, pooled, renew
from ..ops.contrast import centres, contrast, same_class
from ..ops.distances import cosine
from ..ops.losses import ce, sample_pull
from ..ops.prototypes import batch_sums, collected_means, owned, rows, supported

TRAIN = MappingProxyType({"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-5, "batch_size": 64, "epochs": 10})


@methods.register("fpl")
@dataclass(frozen=True)
class FPL(ClusteredPrototypes):
    """Cluster prototypes and unbiased prototypes for clients from different domains."""

    tau: float = option(0.07, "τ, temperature of the contrast", above=0)
    pull: str = option("mean", "L_up over the dimensions: sum, or mean", choices=("sum", "mean"))
    proto_pass: str = option(
        "post", "when prototypes are taken: after training, or in its last epoch", choices=("post", "running")
    )

    paper = "Huang et al., CVPR 2023"
    single = "clusters single prototypes"
    presets = {
        "paper": Preset({"tau": 0.02, "pull": "sum"}, TRAIN, "as printed; 100 rounds"),
        "official": Preset(
            {"tau": 0.02, "proto_pass": "running", "stale": "drop"},
            TRAIN,
            "the authors' released code",
        ),
    }

    # server

    def aggregate(self, state: Clustered, replies: Replies, turn: Turn) -> Clustered:
        weights, _, (mean, cls) = pooled(replies, self.weighting, "mean", "cls")
        mean, cls, _ = self.cluster(mean, cls)
        cls, mean = renew(self.stale, (state.cls, state.mean), (cls, mean))
        return Clustered(weights, mean, cls)

    # client

    def prepare(self, net: Net, data: LocalData, down: Clustered, mem: Tree, turn: Turn) -> View:
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
        if self.proto_pass == "post":
            return loss, {}
        return loss, batch_sums(z, batch.y, len(view["known"]), batch.last)

    def upload(
        self, net: Net, data: LocalData, down: Clustered, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Clustered, Tree]:
        mean, n = collected_means(ran.sums, net, data, turn.task.C)
        mean, cls, _ = owned(mean, supported(n, data, self.min_count))
        return Clustered(net.tensors(), mean, cls), mem
