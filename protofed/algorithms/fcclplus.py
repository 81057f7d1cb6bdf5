"""FCCL+: clients align predictions and similarities on public data, then learn without forgetting.

Huang et al., "Generalizable Heterogeneous Federated Cross-Correlation and Instance Similarity
Learning", TPAMI 2023, arxiv.org/abs/2309.16286.

A round has three exchanges:
1. Every client sends its logits of the public samples and the cosine similarities of their embeddings
   within each public batch; the server averages both.
2. On the public data each client moves its logits Z and its similarities S towards the averages Z̄ and S̄;
   Z and Z̄ are standardised per class over the batch, S has no diagonal. Clients of one architecture
   then send their weights, which the server averages by sample counts.
3. On the local data each client learns, held to the predictions of its own model of the previous round
   over the C−1 wrong classes.

The two losses, with M = ZᵀZ̄/B:

    public  L = Σ_u (M_uu − 1)² + 0.0051 · Σ_{u≠v} (M_uv + 1)²
                + 3 · KL(softmax(S̄/0.02) ‖ softmax(S/0.02))
    local   L = CE + T² · KL(previous ‖ now)  over the wrong classes, at temperature T

Departures and choices:
- Knowledge is exchanged once a round, before the public training; released code exchanges it anew for
  every public batch. It is computed in eval mode.
- Standardisation divides by √(variance + 1e-6), variance without Bessel's correction, so equal logits
  give M_uu = 1 and a constant class gives a finite gradient.
- "Previous round" is the client's last participation; in the first it is the initial model, which
  clients of one architecture receive from the server: averages need a common start.
- One Adam goes through a client's public epochs; released code makes a new one for every public batch.
- Local training follows the run's options; preset `original` has Adam 1e-3, weight decay 1e-5, 20 epochs.
- The paper's public set is not fixed here: any unlabelled data (`--public`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.algorithm import Algorithm, Leg, Needs, Phase, Preset, Ran, View, methods
from ..core.answer import Replies
from ..core.averages import SAMPLES, Averaged
from ..core.data import Batch, LocalData
from ..core.errors import MessageError
from ..core.net import Net
from ..core.optim import Opt
from ..core.options import option
from ..core.record import Nothing, Record, Tree, Weights
from ..core.task import Task, Turn
from ..ops.distances import cosine
from ..ops.distill import kl, non_target_kl, off_diagonal
from ..ops.losses import ce
from ..ops.trees import Average, put, under

VARIANCE_EPS = 1e-6


class Knowledge(Record):
    """What a model (or the average of all) says about the public samples."""

    logits: Float[Tensor, "N C"]
    similar: Float[Tensor, "P"]  # cosines within the public batches, without diagonals, one after another


class State(Record):
    """Server state."""

    logits: Float[Tensor, "N C"]
    similar: Float[Tensor, "P"]
    weights: Tree  # empty unless the models are averaged
    joined: Int[Tensor, "K"]  # 1: the client has a model of its own; the others start from the average


@methods.register("fcclplus")
@dataclass(frozen=True)
class FcclPlus(Algorithm):
    """Agreement on public data: cross-correlation of logits, similarities of instances."""

    off_weight: float = option(0.0051, "weight of the correlations between different classes", low=0)
    sim_weight: float = option(3.0, "weight of the similarity term", low=0)
    sim_temp: float = option(0.02, "temperature of the similarities", above=0)
    T: float = option(3.0, "temperature of the local distillation", above=0)
    lr_public: float = option(0.001, "learning rate on the public data (Adam)", above=0)
    epochs_public: int = option(1, "epochs on the public data a round", low=0)
    batch_public: int = option(256, "batch size on the public data", low=2)
    average: str = option(
        "auto", "average the weights: if all clients have one model, or never", choices=("auto", "never")
    )

    paper = "Huang et al., TPAMI 2023, arXiv:2309.16286"
    needs = Needs(public=True, dense=False)
    presets = {
        "paper": Preset(note="local training as the run says, as in the comparison of FedPLCC"),
        "original": Preset(
            {},
            {"optimizer": "adam", "lr": 0.001, "weight_decay": 1e-5, "epochs": 20},
            "local training of FCCL+",
        ),
    }

    @property
    def legs(self) -> tuple[Leg, ...]:
        public = Phase(
            data="public",
            loss="public_loss",
            epochs=self.epochs_public,
            batch_size=self.batch_public,
            opts={"": Opt(lr=self.lr_public, optimizer="adam")},
        )
        weights = Averaged("weights", weight=SAMPLES)
        return (
            # Weights are empty unless all clients have one architecture.
            Leg(
                "ask",
                down=Weights,
                up=Knowledge,
                phases=(),
                averages=(Averaged("logits"), Averaged("similar")),
            ),
            Leg("public", down=Knowledge, up=Weights, phases=(public,), averages=(weights,)),
            Leg("local", down=Weights),
        )

    # server

    def init(self, task: Task, turn: Turn) -> State:
        weights = task.fresh(0) if self._averages(task) else {}
        return State(task.zeros("N C"), task.zeros("0"), weights, task.zeros("K", int, K=task.clients))

    def broadcast(self, state: State, turn: Turn) -> Record:
        if turn.leg == "public":
            return Knowledge(state.logits, state.similar)
        wanted = turn.leg == "local" or turn.client is None or not state.joined[turn.client]
        return Weights(state.weights if wanted else {})

    def aggregate(self, state: State, replies: Replies, turn: Turn) -> State:
        average = Average()
        if turn.leg == "ask":
            joined = state.joined.clone()
            for reply in replies:
                average.add(reply.up.arrays(), 1, reply.client)
                joined[reply.client] = 1
            return State(**average.result(), weights=state.weights, joined=joined)
        if turn.leg == "local" or not self._averages(turn.task):
            return state
        for reply in replies:
            average.add(reply.up.weights, reply.n, reply.client)
        return State(state.logits, state.similar, average.result(), state.joined)

    def check_upload(self, up: Record, turn: Turn) -> None:
        if isinstance(up, Knowledge):
            sizes = [len(idx) for idx in turn.public_batches(self.batch_public)]
            wanted = sum(size * (size - 1) for size in sizes)
            if len(up.similar) != wanted:
                raise MessageError(f"similar has {len(up.similar)} numbers; the public data gives {wanted}")

    def _averages(self, task: Task) -> bool:
        return self.average == "auto" and len(task.groups) == 1

    # client

    def prepare(self, net: Net, data: LocalData, down: Record, mem: Tree, turn: Turn) -> View:
        if isinstance(down, Knowledge):
            return {"logits": down.logits, "similar": self._table(down, turn)}
        if turn.leg == "local":
            return {"previous": under("previous/", mem) or net.tensors()}
        return {}

    def _table(self, down: Knowledge, turn: Turn) -> Tensor:
        """Similarities [N, B−1] by public sample; rows of a smaller last batch end in zeros."""
        table = down.similar.new_zeros(len(down.logits), self.batch_public - 1)
        start = 0
        for idx in turn.public_batches(self.batch_public):
            size = len(idx) * (len(idx) - 1)
            table[idx, : len(idx) - 1] = down.similar[start : start + size].reshape(len(idx), -1)
            start += size
        return table

    def public_loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        """Cross-correlation of logits, and similarities of instances."""
        z, logits = net(batch.x)
        M = _standard(logits).T @ _standard(view["logits"][batch.idx]) / len(logits)
        same = (M.diagonal() - 1).square().sum()
        different = (off_diagonal(M) + 1).square().sum()
        loss = same + self.off_weight * different
        others = len(logits) - 1
        if others:
            target = view["similar"][batch.idx][:, :others]
            loss = loss + self.sim_weight * kl(target / self.sim_temp, _similar(z) / self.sim_temp)
        return loss

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        _, logits = net(batch.x)
        _, previous = net.at(view["previous"])(batch.x)
        return ce(logits, batch.y) + non_target_kl(previous, logits, batch.y, self.T)

    def upload(
        self, net: Net, data: LocalData, down: Record, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Record, Tree]:
        if turn.leg == "ask":
            return self._knowledge(net, turn), put("previous/", net.tensors())
        if turn.leg == "public":
            return Weights(net.tensors() if self._averages(turn.task) else {}), mem
        return Nothing(), {}

    def _knowledge(self, net: Net, turn: Turn) -> Knowledge:
        public = turn.task.public_data
        logits, similar = turn.task.zeros("N C"), [turn.task.zeros("0")]
        for idx in turn.public_batches(self.batch_public):
            z, logits[idx] = net(public.x[idx])
            similar.append(_similar(z).reshape(-1))
        return Knowledge(logits, torch.cat(similar))


def _similar(z: Tensor) -> Tensor:
    """Cosines [B, B−1] of each embedding with the others of the batch."""
    return off_diagonal(cosine(z, z))


def _standard(logits: Tensor) -> Tensor:
    """Logits with mean 0 and variance 1 over the batch, per class."""
    centred = logits - logits.mean(0)
    return centred / (centred.square().mean(0) + VARIANCE_EPS).sqrt()
