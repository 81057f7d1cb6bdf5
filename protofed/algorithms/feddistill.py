"""FedDistill: clients exchange mean logits per class and learn from the average of all.

Jeong et al., "Communication-Efficient On-Device Machine Learning: Federated Distillation and Augmentation
under Non-IID Private Data", 2018, arxiv.org/abs/1811.11479; here in the form that FedTGP and the public
benchmarks of model-heterogeneous learning compare with.

A client collects its logits while it trains and uploads their mean l_c per class. Its teacher for a sample
is the softmax of the global logits of the sample's class. The server averages the uploads per class over
the clients that have the class.

    client  L = CE − γ · Σ_j q_j · log p_j,   q = softmax(l̄_y), p the prediction
    server  l̄_c = mean of l_kc over the clients k that have class c

Departures and readings:
- The original teacher of a client leaves out that client's own logits: `leave_one_out`, preset `fd`. The
  benchmarks send everybody the same average, the default.
- Samples whose class has no global logits have no second term, and count in the batch mean; void pixels of
  dense labels do not.
- A client that made no step has collected nothing; it uploads logits from one pass over its data.
- `raw_target` feeds the global logits as they are, without softmax, as the latest benchmark code does.
  That target is not a distribution and the loss has no lower bound: an artefact, kept for comparison.
- Class absent from a round: the last average stays, or disappears (`stale=drop`, as in that code). With
  `leave_one_out`, absent means: not uploaded by anybody else.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..core.algorithm import HTFLLIB_TRAIN, Algorithm, Leg, Preset, Ran, View, methods
from ..core.answer import Replies, blocks, cat
from ..core.averages import Averaged
from ..core.data import Batch, LocalData
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree
from ..core.scoring import FEW
from ..core.task import Task, Turn
from ..ops.losses import ce
from ..ops.prototypes import class_sums, means, owned, rows, supported, table


class Logits(Record):
    """Mean logits, one row per class: C_i × C up, C × C down."""

    distinct = "cls"
    mean: Float[Tensor, "J C"]
    cls: Int[Tensor, "J"]


class Global(Record):
    """Server state: rows whose mean per class is the teacher."""

    mean: Float[Tensor, "J C"]
    cls: Int[Tensor, "J"]
    client: Int[Tensor, "J"]  # who sent the row; −1 for an average over clients
    round: Int[Tensor, "J"]  # when; a client learns from the newest rows of others


@methods.register("feddistill")
@dataclass(frozen=True)
class FedDistill(Algorithm):
    """Distillation from the average logits of each class."""

    gamma: float = option(1.0, "γ, weight of the distillation term", low=0)
    leave_one_out: bool = option(False, "a client's teacher excludes its own logits (the original method)")
    raw_target: bool = option(False, "use the global logits as target without softmax (an artefact)")
    stale: str = option(
        "keep", "class absent this round: keep its logits, or drop them", choices=("keep", "drop")
    )
    min_count: int = option(1, "fewest samples of a class for a client to send its logits", low=1)

    paper = "Jeong et al., 2018, arXiv:1811.11479"
    legs = (Leg(down=Logits, up=Logits, averages=(Averaged("mean", by="cls"),)),)
    presets = {
        "paper": Preset(note="one average for all clients"),
        "fd": Preset({"leave_one_out": True}, note="the original teacher, without the client itself"),
        "tgp": Preset(
            {"stale": "drop"},
            HTFLLIB_TRAIN,
            "as the baseline of the FedTGP paper",
        ),
    }

    @property
    def single(self) -> str:
        return "leaves each client's own logits out of its teacher" if self.leave_one_out else ""

    @property
    def weighs_alike(self) -> bool:
        return self.min_count <= FEW

    # server

    def init(self, task: Task, turn: Turn) -> Global:
        none = task.zeros("0", int)
        return Global(task.zeros("0 C"), none, none, none)

    def broadcast(self, state: Global, turn: Turn) -> Logits:
        """The mean of the newest rows of each class, without those of this client."""
        others = state.client.ne(-2 if turn.client is None else turn.client)
        used = _newest(state, others) if self.leave_one_out else others
        return _averages(state.mean[used], state.cls[used])

    def aggregate(self, state: Global, replies: Replies, turn: Turn) -> Global:
        fresh = self._rows(replies, turn) if self.leave_one_out else self._average(state, replies, turn)
        if self.stale == "drop":
            return fresh
        old = torch.isin(state.cls, fresh.cls, invert=True)
        if self.leave_one_out:
            old |= _needed_by_sender(state, fresh)
        return Global(
            torch.cat([fresh.mean, state.mean[old]]),
            torch.cat([fresh.cls, state.cls[old]]),
            torch.cat([fresh.client, state.client[old]]),
            torch.cat([fresh.round, state.round[old]]),
        )

    def _rows(self, replies: Replies, turn: Turn) -> Global:
        """All uploaded rows with their senders."""
        received = replies.all()
        mean, cls = cat(received, "mean", "cls")
        senders = [torch.full_like(reply.up.cls, reply.client) for reply in received]
        return Global(mean, cls, torch.cat(senders), torch.full_like(cls, turn.round))

    def _average(self, state: Global, replies: Replies, turn: Turn) -> Global:
        """One row per class; streams, so memory does not grow with the number of clients."""
        classes = state.mean.shape[1]
        total = state.mean.new_zeros(classes, classes)
        owners = state.mean.new_zeros(classes)
        for block in blocks(replies):
            mean, cls = cat(block, "mean", "cls")
            total.index_add_(0, cls, mean)
            owners.index_add_(0, cls, torch.ones_like(mean[:, 0]))
        mean, cls, _ = owned(means(total, owners), owners)
        return Global(mean, cls, torch.full_like(cls, -1), torch.full_like(cls, turn.round))

    # client

    def prepare(self, net: Net, data: LocalData, down: Logits, mem: Tree, turn: Turn) -> View:
        teacher, known = table(down.mean, down.cls, turn.task.C)
        return {"teacher": teacher if self.raw_target else teacher.softmax(1), "known": known}

    def loss(self, net: Net, batch: Batch, view: View) -> tuple[Tensor, dict[str, Tensor]]:
        logits = net(batch.x)[1]
        sums, count = class_sums(logits.detach(), batch.y, len(view["teacher"]))
        total = ce(logits, batch.y) + self.gamma * self._distillation(logits, batch, view)
        return total, {"logits": sums, "n": count}

    def _distillation(self, logits: Tensor, batch: Batch, view: View) -> Tensor:
        """Batch mean of −Σ_j q_j log p_j with the teacher q of the sample's class; 0 without one."""
        own, y = rows(logits, batch.y)
        safe = y.clamp(min=0)
        taught = view["known"][safe] & (y >= 0)
        terms: Tensor = -(view["teacher"][safe] * own.log_softmax(1)).sum(1)
        return terms.where(taught, terms.new_zeros(())).sum() / (y >= 0).sum().clamp(min=1)

    def upload(
        self, net: Net, data: LocalData, down: Logits, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Logits, Tree]:
        collected = ran.sums or self._collect(net, data, turn.task.C)
        mean, n = means(collected["logits"], collected["n"]), collected["n"]
        mean, cls, _ = owned(mean, supported(n, data, self.min_count))
        return Logits(mean, cls), mem

    def _collect(self, net: Net, data: LocalData, num_classes: int) -> Tree:
        parts = [class_sums(net(x)[1], y, num_classes) for x, y in data.chunks()]
        return {name: torch.stack(part).sum(0) for name, part in zip(("logits", "n"), zip(*parts))}


def _newest(state: Global, among: Tensor) -> Tensor:
    """Bool [J]: of the rows `among`, those of the latest round of their class."""
    latest = state.round.new_full((state.mean.shape[1],), -1)
    latest = latest.scatter_reduce(0, state.cls[among], state.round[among], "amax")
    return among & (state.round == latest[state.cls])


def _needed_by_sender(state: Global, fresh: Global) -> Tensor:
    """Bool [J]: the newest old rows of others, where one client alone uploaded a class: its teacher."""
    classes = state.mean.shape[1]
    alone = torch.bincount(fresh.cls, minlength=classes) == 1
    sender = fresh.client.new_full((classes,), -1).scatter(0, fresh.cls, fresh.client)
    return _newest(state, alone[state.cls] & (state.client != sender[state.cls]))


def _averages(mean: Tensor, cls: Tensor) -> Logits:
    """One row per class that occurs, the classes in order."""
    owned_classes, index = torch.unique(cls, return_inverse=True)
    sums = mean.new_zeros(len(owned_classes), mean.shape[1]).index_add(0, index, mean)
    return Logits(means(sums, index.bincount(minlength=len(owned_classes))), owned_classes)
