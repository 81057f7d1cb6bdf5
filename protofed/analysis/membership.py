"""Whether a sample was among a client's training samples, told from what is seen of the client's upload.

    rows of classes   score = − distance of the sample's features to the nearest row of its class
    weights           score = − loss of the sample under the model

Features need a network. The server has it where weights are sent, and where rows are means of a map that
everybody knows; else the attack is made twice: with the client's own network (the worst case: somebody got
hold of it), and with that of another client with the same architecture (who works together with the server).

Members are training rows of the client, the others its test rows. An attack that finds nothing proves
nothing: a better one may.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from ..core.data import LocalData
from ..core.net import Net
from ..core.record import Tree
from ..core.rng import torch_generator
from ..core.task import Task
from ..experiment import Experiment
from ..metrics.attack_scores import auc, tpr_at
from ..ops.margins import minmax
from ..ops.pooled import PooledSums
from ..ops.prototypes import class_sums, means
from .run_metrics import evaluated_net, evaluated_tensors
from .uploads_again import LOGITS, MAPPED, Seen

FALSE = 0.01  # share of others that may be taken for members
Features = Callable[[Tensor], Tensor]

OWN, ANOTHER, SENT, COMMON = (
    "the client's own network",
    "another client's network",
    "the network that was sent",
    "the common map",
)
OWN_LAYERS = ", with the client's own other layers"  # after the name of an attack


class Map(NamedTuple):
    """How an attacker makes features of a sample."""

    name: str
    features: Features


class Scores(NamedTuple):
    """Of members [M] and others [N]; higher: rather a member."""

    members: Tensor
    others: Tensor


@dataclass(frozen=True)
class Found:
    """What a membership attack found out, over all clients: mean of their AUC, and the share of members that
    is found while at most 1 % of the others are taken for members."""

    auc: float
    tpr: float
    members: int
    others: int


def maps(experiment: Experiment, client: int, seen: Seen, plain: Seen) -> list[Map]:
    """With which networks rows can be attacked. `plain`: the upload itself, which tells how rows are made."""
    task, algorithm = experiment.task, experiment.task.algorithm
    if plain.of == MAPPED:
        assert isinstance(algorithm, PooledSums)
        phi, scale = algorithm.map(task), experiment.federation.state.scale  # type: ignore[attr-defined]
        return [Map(COMMON, lambda x: phi.values(x, scale))]
    sent = bool(seen.weights) and all(name in seen.weights for name in _base_names(task, client))
    own = sent_net(experiment, client, plain) if sent else evaluated_net(experiment, client)
    change = _change(own, plain, experiment.data.train(client), task)
    if sent:
        return [Map(SENT, _features(sent_net(experiment, client, seen), plain, change))]
    found = [Map(OWN, _features(own, plain, change))]
    group = task.group_of(client)
    others = [one for one in experiment.active if one != client and task.group_of(one) == group]
    if others:
        peer = next((one for one in others if one > client), others[0])
        found.append(Map(ANOTHER, _features(evaluated_net(experiment, peer), plain, change)))
    return found


def sent_net(experiment: Experiment, client: int, seen: Seen) -> Net:
    """The client's model with what was sent in its place; parts that stay at the client are its own."""
    task = experiment.task
    tensors = {**evaluated_tensors(experiment, client), **seen.weights}
    net = task.net(task.group_of(client), tensors)
    part = part_of(seen.weights)
    return net if part == "model" else net[part]


def part_of(weights: Tree) -> str:
    """Whose weights these are: the client's model, if that is among them, or one beside it."""
    parts = [name.split(".")[0] for name in weights]
    return "model" if "model" in parts else parts[0]


def with_own_layers(experiment: Experiment, client: int, weights: Tree) -> str:
    """What to say of attacks through a model of which not all layers were sent."""
    part = part_of(weights)
    names = experiment.task.names(experiment.task.group_of(client)).parameters
    whole = all(name in weights for name in names if name.startswith(f"{part}."))
    return "" if whole else OWN_LAYERS


def _base_names(task: Task, client: int) -> list[str]:
    """Of what makes embeddings."""
    names = [n for n in task.names(task.group_of(client)).parameters if n.startswith("model.")]
    return [name for name in names if not name.startswith("model.head.")]


def _features(net: Net, plain: Seen, change: Features) -> Features:
    return lambda x: change(net(x)[1] if plain.of == LOGITS else net.embed(x))


@torch.no_grad()
def _change(net: Net, plain: Seen, data: LocalData, task: Task) -> Features:
    """What the method does to features before it averages them, as whoever knows the method does: of some
    usual changes the one under which the client's own class means come nearest to its rows."""
    if plain.rows is None or not len(plain.rows) or data.y.ndim > 1:
        return _as_it_is
    changes: list[Features] = [_as_it_is, normalize, minmax]
    if task.private is not None:
        radius = task.private.radius
        changes.append(lambda z: z * (radius / z.norm(dim=1, keepdim=True).clamp(min=radius)))

    def away(change: Features) -> float:
        features = _features(net, plain, change)
        parts = [class_sums(features(x), y, task.C) for x, y in data.chunks()]
        total, count = (sum(part[i] for part in parts[1:]) + parts[0][i] for i in (0, 1))
        assert plain.rows is not None
        return float((means(total, count)[plain.cls] - plain.rows).square().sum())

    return min(changes, key=away)


def _as_it_is(z: Tensor) -> Tensor:
    return z


def untrained(experiment: Experiment, client: int) -> Net:
    """The client's architecture before any training: it knows of no sample."""
    group = experiment.task.group_of(client)
    return experiment.task.net(group, experiment.task.fresh(group, client))


@torch.no_grad()
def by_rows(features: Features, seen: Seen, train: LocalData, test: LocalData) -> Scores:
    """Scores by the distance to the rows of the sample's class; −∞ where there is no such row."""
    return Scores(_distances(features, seen, train), _distances(features, seen, test))


def _distances(features: Features, seen: Seen, data: LocalData) -> Tensor:
    assert seen.rows is not None
    if not len(data):
        return torch.zeros(0, dtype=torch.float64)
    if not len(seen.rows):
        return torch.full((len(data),), -torch.inf, dtype=torch.float64)
    z = torch.cat([features(x) for x, _ in data.chunks()]).double()
    away = torch.cdist(z, seen.rows.double()).masked_fill(data.y[:, None] != seen.cls, torch.inf)
    return -away.min(1).values


@torch.no_grad()
def by_loss(net: Net, train: LocalData, test: LocalData) -> Scores:
    """Scores by the loss of the model; of dense labels the mean over a sample's positions."""
    return Scores(_losses(net, train), _losses(net, test))


def _losses(net: Net, data: LocalData) -> Tensor:
    parts = []
    for x, y in data.chunks():
        loss = cross_entropy(net(x)[1].double(), y, reduction="none", ignore_index=-1)
        parts.append(-loss.reshape(len(y), -1).mean(1))
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)


def some(data: LocalData, most: int, *key: int | str) -> LocalData:
    """At most so many rows, drawn once; all rows that passes see are among those that may be drawn."""
    if len(data) <= most:
        return LocalData(data.x, data.y)
    rows = torch.randperm(len(data), generator=torch_generator("membership", *key))[:most]
    return LocalData(data.x[rows], data.y[rows])


def together(scores: list[Scores]) -> Found | None:
    """Over clients: each one's scores on the scale of its others, of which an attacker has some like them.
    None where no client has members and others."""
    usable = [one for one in scores if len(one.members) and len(one.others)]
    if not usable:
        return None
    scaled = [_scaled(one) for one in usable]
    members, others = (torch.cat([one[i] for one in scaled]) for i in (0, 1))
    mean = sum(auc(*one) for one in usable) / len(usable)
    return Found(mean, tpr_at(members, others, FALSE), len(members), len(others))


def _scaled(scores: Scores) -> Scores:
    finite = scores.others[torch.isfinite(scores.others)]
    if not len(finite):
        return Scores(*(torch.full_like(one, -torch.inf) for one in scores))
    spread = finite.std(correction=0).clamp(min=1e-12)
    return Scores(*((one - finite.mean()) / spread for one in scores))
