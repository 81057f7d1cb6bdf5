"""FeSEM: several global models; each client belongs to the one nearest to its own weights.

Xie et al., "Multi-Center Federated Learning", 2020, arxiv.org/abs/2005.01026.

Clients train from the centre of their cluster by cross-entropy. After each round the server assigns every
uploaded model to the nearest centre, over all parameters (E-step), and each centre becomes the plain mean
of its uploaded models (M-step).

    client  L = CE, from the centre of its cluster r_k
    server  r_k = argmin_r ‖w_k − centre_r‖²,   centre_r ← mean of the w_k with r_k = r

Choices that the paper leaves open:
- Round 1 starts all clients from one model; its uploads seed the centres by k-means++.
- A cluster without clients takes over the upload farthest from its own centre, if that leaves a client
  behind. A cluster whose clients merely did not take part keeps its centre.
- Clients that do not take part keep their cluster. A client that never took part gets the centre with the
  most clients.

Departures: `assign=ways` is the baseline of FedProto's released code: two fixed groups, clients with fewer
classes than the average and all others (preset `official`). The average is over the clients heard of.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from ..core.algorithm import Leg, Preset, Ran, methods
from ..core.answer import Replies, Reply
from ..core.data import LocalData
from ..core.errors import ConfigError, MessageError
from ..core.net import Net
from ..core.options import option
from ..core.record import Record, Tree, Weights
from ..core.task import Task, Turn
from ..ops.kmeans import plus_plus, squared_distances
from ..ops.sharing import SharedWeights
from ..ops.trees import Average, flat, put, under


class Upload(Record):
    """A client's weights, and what else its cluster hangs on."""

    weights: Tree
    ways: Int[Tensor, "J"]  # one number, the client's classes, for assign=ways; else nothing


class Clusters(Record):
    """Server state."""

    centres: Tree  # "1/model.head.bias": a tensor of centre 1
    cluster: Int[Tensor, "M"]  # of each client; −1 = never took part
    ways: Int[Tensor, "M"]  # classes of each client, 0 = not known


@methods.register("fesem")
@dataclass(frozen=True)
class FeSem(SharedWeights):
    """Several global models, each the mean of the clients nearest to it."""

    k: int = option(2, "number of centres", low=1)
    assign: str = option(
        "nearest", "cluster of a client: nearest centre, or by its classes", choices=("nearest", "ways")
    )

    paper = "Xie et al., 2020, arXiv:2005.01026"
    single = "sorts clients into clusters by their weights"
    legs = (Leg(down=Weights, up=Upload),)
    presets = {
        "paper": Preset(),
        "official": Preset({"assign": "ways"}, note="the baseline in FedProto's released code"),
    }

    def __post_init__(self) -> None:
        if self.assign == "ways" and self.k != 2:
            raise ConfigError(
                f"fesem: assign=ways makes two groups, got k={self.k}; set k=2 or assign=nearest"
            )

    # server

    def init(self, task: Task, turn: Turn) -> Clusters:
        start = self.shared(task.fresh(0), task, 0)
        centres: Tree = {}
        for k in range(self.k):
            centres |= put(f"{k}/", start)
        ways = task.zeros("M", int, M=task.clients)
        return Clusters(centres, ways - 1, ways)

    def broadcast(self, state: Clusters, turn: Turn) -> Weights:
        known = state.cluster[state.cluster >= 0]
        k = -1 if turn.client is None else int(state.cluster[turn.client])
        if k < 0:
            k = int(torch.bincount(known, minlength=self.k).argmax())
        return Weights(under(f"{k}/", state.centres))

    def aggregate(self, state: Clusters, replies: Replies, turn: Turn) -> Clusters:
        received = replies.all()
        if self.assign == "ways":
            ways = state.ways.index_copy(*_column(received, [int(r.up.ways) for r in received], state.ways))
            cluster = _by_ways(ways)
        else:
            ways, cluster = state.ways, self._nearest(state, received, turn)
        return Clusters(self._means(state.centres, received, cluster), cluster, ways)

    def check_upload(self, up: Upload, turn: Turn) -> None:
        wanted = 1 if self.assign == "ways" else 0
        if len(up.ways) != wanted:
            raise MessageError(f"ways has {len(up.ways)} numbers; expected {wanted}")

    def _nearest(self, state: Clusters, received: list[Reply], turn: Turn) -> Tensor:
        """E-step: the cluster of every client."""
        names = turn.task.names(0).parameters
        rows = torch.stack([flat({n: reply.up.weights[n] for n in names}) for reply in received])
        if (state.cluster < 0).all():
            centres = torch.stack([rows[i] for i in plus_plus(rows, self.k, turn.generator("seeding"))])
        else:
            trees = [under(f"{k}/", state.centres) for k in range(self.k)]
            centres = torch.stack([flat({n: tree[n] for n in names}) for tree in trees])
        distance, nearest = squared_distances(rows, centres).min(1)
        cluster = state.cluster.index_copy(*_column(received, nearest.tolist(), state.cluster))
        clients = torch.tensor([reply.client for reply in received], device=cluster.device)
        return fill_empty(cluster, clients, distance, self.k)

    def _means(self, centres: Tree, received: list[Reply], cluster: Tensor) -> Tree:
        """M-step: each centre with uploads becomes their mean."""
        averages: dict[int, Average] = {}
        for reply in received:
            average = averages.setdefault(int(cluster[reply.client]), Average())
            average.add(reply.up.weights, 1, reply.client)
        new = dict(centres)
        for k, average in averages.items():
            new |= put(f"{k}/", average.result())
        return new

    # client

    def upload(
        self, net: Net, data: LocalData, down: Weights, mem: Tree, ran: Ran, turn: Turn
    ) -> tuple[Upload, Tree]:
        present = data.present(turn.task.C).sum()[None]
        ways = present if self.assign == "ways" else present[:0]
        return Upload(self.shared(net.tensors(), turn.task, turn.group), ways), mem


def fill_empty(cluster: Tensor, clients: Tensor, distance: Tensor, k: int) -> Tensor:
    """Give every cluster without clients the upload farthest from its centre (clients and squared
    distances [N]), out of a cluster that has more than one client."""
    cluster = cluster.clone()
    for empty in range(k):
        sizes = torch.bincount(cluster[cluster >= 0], minlength=k)
        if sizes[empty]:
            continue
        spare = torch.where(sizes[cluster[clients]] > 1, distance, torch.zeros_like(distance))
        if spare.max() > 0:
            cluster[clients[spare.argmax()]] = empty
    return cluster


def _by_ways(ways: Tensor) -> Tensor:
    """0 for clients with fewer classes than the mean of those known, 1 for others, −1 for unknown."""
    mean = ways[ways > 0].double().mean()
    return torch.where(ways > 0, (ways >= mean).to(torch.int64), torch.full_like(ways, -1))


def _column(received: list[Reply], values: list[int], like: Tensor) -> tuple[int, Tensor, Tensor]:
    """Arguments of `index_copy`: one value per sender."""
    clients = [reply.client for reply in received]
    return 0, torch.tensor(clients, device=like.device), torch.tensor(values, device=like.device)
