"""Prototype margins of a run (*FedTGP*, Fig. 1): how far a class's prototype is from the nearest other one.

At a client among its own prototypes, by the model that is tested there; the largest over clients counts.
Global among those of the server. FedTGP's figure: averaging shrinks margins, trained prototypes widen them.

Departure: where a class has several prototypes its margin is the smallest among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from ..experiment import Experiment
from ..ops.prototypes import class_means, owned
from .run_metrics import evaluated_net

Protos = tuple[Tensor, Tensor]  # rows [J, D] and their classes [J]


def class_margins(rows: Tensor, cls: Tensor, classes: int) -> Tensor:
    """[C]: smallest distance of a prototype of the class to one of another; infinite where there is none.

    Points 0 and 1 of class 0, 4 of class 2: margins 3, ∞, 3.
    """
    distance = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
    nearest = distance.masked_fill(cls[:, None] == cls[None], torch.inf).amin(1)
    return rows.new_full((classes,), torch.inf).scatter_reduce(0, cls, nearest, "amin")


@torch.no_grad()
def local_prototypes(experiment: Experiment, client: int) -> Protos:
    """The client's prototypes and their classes, by the model that is tested there."""
    net, data = evaluated_net(experiment, client), experiment.data.train(client)
    mean, cls, _ = owned(*class_means(net, data, experiment.task.C))
    return mean, cls


def largest_margins(local: Iterable[Protos], classes: int) -> Tensor:
    """[C]: the largest margin of the class at any client; −∞ where no client has one."""
    found = torch.full((classes,), -torch.inf)
    for rows, cls in local:
        own = class_margins(rows, cls, classes).cpu().float()
        found = found.maximum(own.where(own.isfinite(), -torch.inf))
    return found


def global_margins(experiment: Experiment) -> Tensor | None:
    """[C] of the server's prototypes, if the method has any."""
    found = experiment.task.algorithm.prototypes(experiment.federation.state)
    if found is None or not len(found[0]):
        return None
    return class_margins(*found, experiment.task.C).cpu().float()


def margin_ratio(experiment: Experiment) -> float:
    """Mean over classes of global margin / largest margin at a client; NaN without global prototypes.

    Below 1 margins shrank on the server.
    """
    server = global_margins(experiment)
    if server is None:
        return math.nan
    local = (local_prototypes(experiment, client) for client in experiment.active)
    clients = largest_margins(local, experiment.task.C)
    both = server.isfinite() & clients.isfinite() & (clients > 0)
    return float((server / clients)[both].mean())
