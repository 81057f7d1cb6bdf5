"""MOON: embeddings are pulled to those of the received model, away from the client's previous model.

Li, He and Song, "Model-Contrastive Federated Learning", CVPR 2021, arxiv.org/abs/2103.16257.

u, u_g and u_p are representations of a sample by the model in training, the received one, and the
client's own at the end of its previous participation; the server averages by sample counts.

    client  L = CE − μ · log( e^{cos(u, u_g)/τ} / (e^{cos(u, u_g)/τ} + e^{cos(u, u_p)/τ}) )
    server  w ← Σ_k (n_k / n) · w_k

`project` adds the paper's projection, Linear(D,D)-ReLU-Linear(D,256), which is part of the shared model
and is sent; without it u is the embedding itself (preset `plcc`, as in the domain-shift papers). That code
also runs the received and the previous model in train mode, on statistics of the batch: `others=train`.

Departures:
- The classifier works on the embedding; in the authors' code on the projection.
- At a client's first participation the previous model is the received one: the term is log 2 and has
  no gradient. The authors leave it out in the first round.
- μ is tuned in the paper over 0.1, 1, 5 and 10.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import softplus

from ..core.algorithm import Needs, Preset, Ran, View, methods
from ..core.data import Batch, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Tree, Weights
from ..core.task import Task, Turn
from ..ops.distances import row_cosine
from ..ops.losses import ce
from ..ops.sharing import SharedWeights
from ..ops.trees import put, under

PROJECTED = 256


@methods.register("moon")
@dataclass(frozen=True)
class Moon(SharedWeights):
    """FedAvg with a contrast between the global and the previous model."""

    mu: float = option(5.0, "μ, weight of the contrastive term", low=0)
    tau: float = option(0.5, "τ, temperature", above=0)
    project: bool = option(True, "contrast projections of the embeddings; the projection is shared")
    others: str = option(
        "eval", "mode in which the received and the previous model run", choices=("eval", "train")
    )

    paper = "Li et al., CVPR 2021, arXiv:2103.16257"
    needs = Needs(model=True, dense=False)  # one representation per sample
    presets = {
        "paper": Preset(note="with the projection"),
        "plcc": Preset(
            {"project": False, "others": "train"}, note="as the baseline of the FedPLCC paper: embeddings"
        ),
    }

    def modules(self, task: Task, group: int) -> dict[str, nn.Module]:
        if not self.project:
            return {}
        dim = task.embed_dims[group]
        return {"proj": nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, PROJECTED))}

    def prepare(self, net: Net, data: LocalData, down: Weights, mem: Tree, turn: Turn) -> View:
        received = {name: down.weights.get(name, tensor) for name, tensor in net.tensors().items()}
        return {"received": received, "previous": under("prev/", mem) or received}

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        z, logits = net(batch.x)
        u = net["proj"](z) if self.project else z
        training = self.others == "train"
        to_global = row_cosine(u, self._represent(net.at(view["received"], training), batch.x))
        to_previous = row_cosine(u, self._represent(net.at(view["previous"], training), batch.x))
        # −log(e^a / (e^a + e^b)) = softplus(b − a)
        contrast = softplus((to_previous - to_global) / self.tau).mean()
        return ce(logits, batch.y) + self.mu * contrast

    def _represent(self, net: Net, x: Tensor) -> Tensor:
        z = net.embed(x)
        u: Tensor = net["proj"](z) if self.project else z
        return u

    def upload(
        self, net: Net, data: LocalData, down: Weights, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Weights, Tree]:
        tensors = net.tensors()
        return Weights(self.shared(tensors, turn.task, turn.group)), put("prev/", tensors)
