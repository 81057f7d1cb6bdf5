"""FML: each client trains its own model and a small shared one, which teach each other.

Shen et al., "Federated Mutual Learning", 2020, arxiv.org/abs/2006.16765.

Both train on every batch, the own model a and the auxiliary ("meme") model g. Only g travels; the server
averages it without weights.

    client  L_a = α · CE_a + (1−α) · KL(p_g ‖ p_a)
            L_g = β · CE_g + (1−β) · KL(p_a ‖ p_g)
    server  g ← mean of the g_k

Departures and choices:
- Teachers are constant and KL is a mean over the batch. Released code divides KL by C once more and
  lets gradients run into the teachers: preset `official`.
- The two losses are one sum: with constant teachers each model has only its own gradient. Each model
  has its own optimiser with the run's options, and its own gradient norm for clipping.
- g has the smallest architecture among the clients' models. With FedTGP's homogeneous models (its
  Table 11), and with its different heads, it is the 4-layer CNN instead: `aux=cnn4`. The released code sets
  the seed before it builds g and before it builds each client's model, so that models of one architecture
  start alike: `aux_start=model` with the setting `init=common`, part of preset `official`. It takes the
  architecture of client 0, which is the smallest in all groups but the eight CNNs: `aux=htcnn:1` there.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from ..core.algorithm import HTFLLIB_TRAIN, Leg, Needs, Phase, Preset, Ran, View, methods
from ..core.answer import Replies
from ..core.averages import Averaged
from ..core.data import Batch, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Tree, Weights
from ..core.task import Task, Turn
from ..ops.distill import MutualLearning, auxiliary_model
from ..ops.losses import ce
from ..ops.trees import Average


@methods.register("fml")
@dataclass(frozen=True)
class Fml(MutualLearning):
    """Own models and a small shared model teach each other."""

    alpha: float = option(0.5, "α, share of cross-entropy in the own model's loss", low=0, high=1)
    beta: float = option(0.5, "β, share of cross-entropy in the auxiliary model's loss", low=0, high=1)

    paper = "Shen et al., 2020, arXiv:2006.16765"
    keep = ("model.",)
    presets = {
        "paper": Preset(note="as printed"),
        "official": Preset(
            {"kl_mean": "element", "detach": False, "aux_start": "model"},
            HTFLLIB_TRAIN,
            "the released code of the FedTGP paper's baseline",
        ),
    }

    @property
    def needs(self) -> Needs:
        return Needs(peers=not self.aux)

    @property
    def legs(self) -> tuple[Leg, ...]:
        phase = Phase(opts={"model.": self.clipping, "aux.": self.clipping})
        return (Leg(down=Weights, up=Weights, phases=(phase,), averages=(Averaged("weights"),)),)

    def modules(self, task: Task, group: int) -> dict[str, nn.Module]:
        return {"aux": auxiliary_model(task, self.aux)}

    # server

    def init(self, task: Task, turn: Turn) -> Weights:
        return Weights(self.first_aux(task))

    def broadcast(self, state: Weights, turn: Turn) -> Weights:
        return state

    def aggregate(self, state: Weights, replies: Replies, turn: Turn) -> Weights:
        average = Average()
        for reply in replies:
            average.add(reply.up.weights, 1, reply.client)
        return Weights(average.result())

    # client

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        """L_a + L_g."""
        _, own = net(batch.x)
        _, aux = net["aux"](batch.x)
        own_loss = self.alpha * ce(own, batch.y) + (1 - self.alpha) * self.kl(aux, own)
        return own_loss + self.beta * ce(aux, batch.y) + (1 - self.beta) * self.kl(own, aux)

    def upload(
        self, net: Net, data: LocalData, down: Weights, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Weights, Tree]:
        return Weights(net.tensors("aux.")), mem
