"""FedKD: a small shared model learns with each client's own, and travels as a low-rank approximation.

Wu et al., "Communication-efficient federated learning via knowledge distillation", Nature
Communications 13, 2022, arxiv.org/abs/2108.13323.

With own model a, auxiliary model g, s = CE_a + CE_g and a private matrix W_h:

    client  L_a = CE_a + KL(p_g ‖ p_a)/s + MSE(z_a, W_h z_g)/s
            L_g = CE_g + KL(p_a ‖ p_g)/s + MSE(z_a, W_h z_g)/s
    server  g ← mean of the g_k
    both    of each matrix the fewest singular triples that hold a share e_t of its energy,
            e_t = T_start + (t/T) · (T_end − T_start)

Departures and choices:
- What is compressed: the clients' updates and their average (`compress=delta`, the paper), or the
  weights themselves (`compress=params`, reference code). With `delta` every client keeps the version
  of g that it received last; one that missed a round, or is new, is sent g whole.
- s is constant, and at least 1e-6: both cross-entropies may vanish. Teachers are constant; W_h learns
  from both losses. Preset `official` has none of this but the floor, and KL divided by C.
- Ranks: see `ops.lowrank`. `rank=reference` is the released loop, which may wipe out a matrix, with its
  decomposition of convolutions per pair of channels. Rounds count from 0 there (e is T_start in the first),
  and the first auxiliary model goes out whole.
- g, W_h and the clients' models start as FML's do; each client's W_h starts alike there.
- T_end = 0.95 as the FedTGP paper prints it; the released code of FedKD ends at 0.98 (`official`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from ..core.algorithm import HTFLLIB_TRAIN, Leg, Needs, Phase, Preset, Ran, View, methods
from ..core.answer import Replies
from ..core.data import Batch, LocalData
from ..core.errors import MessageError
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree
from ..core.task import Task, Turn
from ..ops.distill import MutualLearning, auxiliary_model
from ..ops.losses import ce
from ..ops.lowrank import RANKS, pack, unpack
from ..ops.trees import Average, put, under

SMALLEST_SCALE = 1e-6


class Packed(Record):
    """A client's weights, or their update, as factors."""

    factors: Tree  # aux.*, as `ops.lowrank.pack` makes them


class Down(Record):
    """The auxiliary model whole, or as factors (of itself, or of its last update)."""

    weights: Tree
    factors: Tree


class State(Record):
    """Server state."""

    factors: Tree  # what goes down
    weights: Tree  # the auxiliary model after that update; empty unless compress=delta
    holds: Int[Tensor, "K"]  # 1: the client took part in the last round and can apply the update


@methods.register("fedkd")
@dataclass(frozen=True)
class FedKD(MutualLearning):
    """Adaptive mutual distillation with a shared model that travels in low rank."""

    lr_g: float = option(0.01, "learning rate of the auxiliary model", above=0)
    t_start: float = option(0.95, "T_start, share of energy kept at the start", above=0, high=1)
    t_end: float = option(0.95, "T_end, share of energy kept in the last round", above=0, high=1)
    compress: str = option("delta", "what is compressed: updates, or weights", choices=("delta", "params"))
    rank: str = option("smallest", "rule of the rank: smallest, or the released loop", choices=tuple(RANKS))
    detach: bool = option(True, "what teaches, and the scale s, are constant")

    paper = "Wu et al., Nature Communications 2022, arXiv:2108.13323"
    single = "unpacks each client's factors"
    keep = ("model.", "proj.", "ref.")
    presets = {
        "paper": Preset(note="the method as printed, values of the FedTGP paper"),
        "official": Preset(
            {
                "compress": "params",
                "rank": "reference",
                "t_end": 0.98,
                "kl_mean": "element",
                "detach": False,
                "aux_start": "model",
            },
            HTFLLIB_TRAIN,
            "the released code of the FedTGP paper's baseline",
        ),
    }

    @property
    def needs(self) -> Needs:
        return Needs(embedding=True, dense=False, peers=not self.aux)

    @property
    def legs(self) -> tuple[Leg, ...]:
        own, aux = self.clipping, {**self.clipping, "lr": self.lr_g}
        opts = {"model.": own, "proj.": own, "aux.": aux}
        phase = Phase(train=("model.", "proj.", "aux."), opts=opts, eval=("ref.",))
        return (Leg(down=Down, up=Packed, phases=(phase,)),)

    def modules(self, task: Task, group: int) -> dict[str, nn.Module]:
        aux = auxiliary_model(task, self.aux)
        found = {"aux": aux, "proj": nn.Linear(_embedding(aux, task.D), task.D, bias=False)}
        # "ref" is never run: it holds the version of the auxiliary model to which an update is added.
        return found | ({"ref": copy.deepcopy(aux)} if self.compress == "delta" else {})

    def energy(self, turn: Turn) -> float:
        """e_t, the share of energy that is kept in this round."""
        round = max(0, turn.round - 1) if self.rank == "reference" else turn.round
        return self.t_start + round / turn.task.rounds * (self.t_end - self.t_start)

    # server

    def init(self, task: Task, turn: Turn) -> State:
        aux = self.first_aux(task)
        holds = task.zeros("K", int, K=task.clients)
        if self.compress == "delta":
            return State({}, aux, holds)
        whole = self.rank == "reference"
        return State(aux if whole else pack(aux, self.energy(turn), self.rank), {}, holds)

    def broadcast(self, state: State, turn: Turn) -> Down:
        if self.compress == "params" or state.holds[turn.client]:
            return Down({}, state.factors)
        return Down(state.weights, {})

    def aggregate(self, state: State, replies: Replies, turn: Turn) -> State:
        average, holds, like = Average(), torch.zeros_like(state.holds), _shapes(turn)
        for reply in replies.all():  # sorted: which singular values are cut may hang on the last bit
            average.add(unpack(reply.up.factors, like), 1, reply.client)
            holds[reply.client] = 1
        factors = pack(average.result(), self.energy(turn), self.rank)
        weights = _moved(state.weights, unpack(factors, like)) if self.compress == "delta" else {}
        return State(factors, weights, holds)

    def check_upload(self, up: Packed, turn: Turn) -> None:
        try:
            unpack(up.factors, _shapes(turn))
        except (KeyError, RuntimeError) as error:
            raise MessageError(f"factors do not fit the auxiliary model: {error}") from error

    # client

    def load(self, tensors: Tree, down: Down, turn: Turn) -> Tree:
        aux = down.weights or unpack(down.factors, _shapes(turn))
        if self.compress == "params":
            return {**tensors, **aux}
        if not down.weights:
            aux = _moved(put("aux.", under("ref.", tensors)), aux)
        return {**tensors, **aux, **put("ref.", under("aux.", aux))}

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        """L_a + L_g."""
        z_own, own = net(batch.x)
        z_aux, aux = net["aux"](batch.x)
        ce_own, ce_aux = ce(own, batch.y), ce(aux, batch.y)
        distil = self.kl(aux, own) + self.kl(own, aux)
        scale = (ce_own + ce_aux).clamp(min=SMALLEST_SCALE)
        if self.detach:
            scale = scale.detach()
            hidden = mse_loss(z_own, net["proj"](z_aux.detach()))
            hidden = hidden + mse_loss(z_own.detach(), net["proj"](z_aux))
        else:
            hidden = 2 * mse_loss(z_own, net["proj"](z_aux))
        return ce_own + ce_aux + (distil + hidden) / scale

    def upload(
        self, net: Net, data: LocalData, down: Down, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Packed, Tree]:
        aux = net.tensors("aux.")
        if self.compress == "delta":
            aux = {n: t - ran.start[n] if t.is_floating_point() else t for n, t in aux.items()}
        return Packed(pack(aux, self.energy(turn), self.rank)), mem


def _embedding(model: nn.Module, default: int) -> int:
    """Size of a model's embeddings, as its head shows it."""
    head = getattr(model, "head", None)
    linear = [m for m in head.modules() if isinstance(m, nn.Linear)] if isinstance(head, nn.Module) else []
    return linear[0].in_features if linear else default


def _shapes(turn: Turn) -> Tree:
    """The auxiliary model's tensors, for their names and shapes."""
    return {n: t for n, t in turn.task.live(turn.group).named().items() if n.startswith("aux.")}


def _moved(weights: Tree, update: Tree) -> Tree:
    """Weights plus update; integers (BatchNorm's counter) are replaced."""
    return {n: t + update[n] if t.is_floating_point() else update[n] for n, t in weights.items()}
