"""NAME: the idea in one sentence.

Authors, "Title", venue year, arxiv.org/abs/NUMBER.

What the client minimises and what the server does, in two or three sentences with equation numbers, and
as formulas, indented as here (the docs show them as they stand):

    client  L = CE + λ · Σ_c ‖p_c − P_c‖²            (Eq. 1)
    server  P_c = mean of the uploads of class c     (Eq. 2)

Departures: every choice that the paper leaves open or that differs from it or from its released code.

Copy this file and delete the hooks that the defaults already serve. `protofed run my_method.py:Template` runs
it wherever it lies; within protofed/algorithms/ it is registered under a name of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from protofed.method import (
    Algorithm,
    Batch,
    ClassCounts,
    ClientTurn,
    Leg,
    LocalData,
    Needs,
    Net,
    Ran,
    Record,
    Replies,
    Task,
    Tree,
    Turn,
    View,
    cat,
    ce,
    class_means,
    option,
    owned,
    prototype_predictions,
    table,
)


class Message(Record):
    """What travels: rows with their class, so that a client without a class sends nothing for it."""

    distinct = "cls"  # one row a class: an upload with more is refused
    mean: Float[Tensor, "J D"]
    cls: Int[Tensor, "J"]


class State(Record):
    """What the server remembers. Everything here is saved in checkpoints."""

    mean: Float[Tensor, "C D"]
    known: Int[Tensor, "C"]


# In protofed/algorithms/: @methods.register("name")
@dataclass(frozen=True)
class Template(Algorithm):
    """One line for `protofed list methods`."""

    lam: float = option(1.0, "λ, weight of the extra term (Eq. 1)", low=0)

    paper = "Authors, venue year, arXiv:NUMBER"
    modes = ("clf", "gp_all", "gp_local", "lp")
    needs = Needs(embedding=True)
    legs = (Leg(down=Message, up=Message),)

    # server

    def init(self, task: Task, turn: Turn) -> State:
        return State(task.zeros("C D"), task.zeros("C", int))

    def broadcast(self, state: State, turn: Turn) -> Message:
        mean, cls, _ = owned(state.mean, state.known)
        return Message(mean, cls)

    def aggregate(self, state: State, replies: Replies, turn: Turn) -> State:
        mean, cls = cat(replies.all(), "mean", "cls")
        count = torch.zeros_like(state.known).index_add(0, cls, torch.ones_like(cls))
        total = torch.zeros_like(state.mean).index_add(0, cls, mean)
        return State(total / count.clamp(min=1)[:, None], count)

    # client

    def prepare(self, net: Net, data: LocalData, down: Message, mem: Tree, turn: ClientTurn) -> View:
        protos, known = table(down.mean, down.cls, turn.task.C)
        return {"protos": protos, "known": known}

    def loss(self, net: Net, batch: Batch, view: View) -> Tensor:
        z, logits = net(batch.x)
        pull = (z - view["protos"][batch.y]).square().mean(1) * view["known"][batch.y]
        total: Tensor = ce(logits, batch.y) + self.lam * pull.mean()
        return total

    def upload(
        self, net: Net, data: LocalData, down: Message, mem: Tree, ran: Ran, turn: ClientTurn
    ) -> tuple[Message, Tree]:
        mean, n = class_means(net, data, turn.task.C)
        rows, cls, _ = owned(mean, n)
        return Message(rows, cls), {"mean": mean, "n": n}

    def predict(self, net: Net, x: Tensor, data: ClassCounts, down: Message, mem: Tree) -> dict[str, Tensor]:
        return prototype_predictions(net, x, data, down, mem)

    # analysis

    def prototypes(self, state: State) -> tuple[Tensor, Tensor]:
        mean, cls, _ = owned(state.mean, state.known)
        return mean, cls
