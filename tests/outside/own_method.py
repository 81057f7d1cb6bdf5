"""FedMedian: the global prototype of a class is the median of the clients' prototypes, number by number."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from protofed.method import (
    Algorithm,
    Leg,
    Needs,
    Record,
    cat,
    ce,
    class_means,
    option,
    owned,
    prototype_predictions,
    table,
)


class Protos(Record):
    """One row for each class that the sender has."""

    mean: Float[Tensor, "J D"]
    cls: Int[Tensor, "J"]


class Global(Record):
    """What the server remembers."""

    mean: Float[Tensor, "C D"]
    known: Int[Tensor, "C"]


@dataclass(frozen=True)
class FedMedian(Algorithm):
    """The median of prototypes pulls the embeddings together."""

    lam: float = option(1.0, "λ, weight of the prototype term", low=0)

    modes = ("gp_local", "clf", "gp_all", "lp")
    needs = Needs(embedding=True)
    legs = (Leg(down=Protos, up=Protos),)

    def init(self, task, turn):
        return Global(task.zeros("C D"), task.zeros("C", int))

    def broadcast(self, state, turn):
        mean, cls, _ = owned(state.mean, state.known)
        return Protos(mean, cls)

    def aggregate(self, state, replies, turn):
        rows, cls = cat(replies.all(), "mean", "cls")
        mean, known = state.mean.clone(), state.known.clone()
        for c in cls.unique().tolist():
            mean[c], known[c] = rows[cls == c].median(0).values, 1
        return Global(mean, known)

    def prepare(self, net, data, down, mem, turn):
        protos, known = table(down.mean, down.cls, turn.task.C)
        return {"protos": protos, "known": known}

    def loss(self, net, batch, view):
        z, logits = net(batch.x)
        pull = (z - view["protos"][batch.y]).square().mean(1) * view["known"][batch.y]
        return ce(logits, batch.y) + self.lam * pull.mean()

    def upload(self, net, data, down, mem, ran, turn):
        mean, n = class_means(net, data, turn.task.C)
        rows, cls, _ = owned(mean, n)
        return Protos(rows, cls), {"mean": mean, "n": n}

    def predict(self, net, x, data, down, mem):
        return prototype_predictions(net, x, data, down, mem)

    def prototypes(self, state):
        rows, cls, _ = owned(state.mean, state.known)
        return rows, cls
