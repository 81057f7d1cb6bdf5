"""One class of a run: embeddings of the clients' samples, their prototypes and the server's, with weights
(*FedPLCC*, Fig. 2, where prototypes are clusters of very different sizes).

Local prototypes are what the method would upload of the models as they stand, without further training; a
weight is the samples behind a prototype. Global ones are those of the server, with its weights where it
keeps any (`w`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..core.errors import ConfigError
from ..core.record import Record
from ..experiment import Experiment
from ..ops.prototypes import features
from .run_metrics import evaluated_net
from .uploads_again import upload_of


class Placed(NamedTuple):
    """Rows [N, D] in the space of embeddings, whose they are (-1: the server's), and their weights."""

    rows: Tensor
    client: list[int]
    weight: list[float]


class OneClass(NamedTuple):
    """What there is of a class."""

    samples: Placed
    local: Placed
    shared: Placed


@torch.no_grad()
def one_class(experiment: Experiment, cls: int, most: int) -> OneClass:
    """At most `most` training samples of a class in all, evenly from the clients; all its prototypes."""
    if not 0 <= cls < experiment.task.C:
        raise ConfigError(f"class: {cls} is none of 0 to {experiment.task.C - 1}")
    clients = [client for client in experiment.active if experiment.data.size(client)]
    samples, local = [], []
    for client in clients:
        z, y = features(evaluated_net(experiment, client), experiment.data.train(client))
        z = z[y == cls][: -(-most // len(clients))]
        samples.append((client, z, torch.ones(len(z))))
        up = upload_of(experiment, experiment.task.algorithm.legs[-1], client, train=False).up
        rows, weight = _of_class(up, cls, experiment.task.algorithm.name)
        local.append((client, rows, weight))
    found = experiment.task.algorithm.prototypes(experiment.federation.state)
    if found is None:
        raise ConfigError(f"{experiment.task.algorithm.name} has no global prototypes to draw")
    mean, classes = found
    weights = getattr(experiment.federation.state, "w", None)
    weight = torch.ones(len(mean)) if weights is None or len(weights) != len(mean) else weights
    own = classes == cls
    return OneClass(_placed(samples), _placed(local), _placed([(-1, mean[own], weight[own])]))


def _of_class(up: Record, cls: int, method: str) -> tuple[Tensor, Tensor]:
    """Rows of a class in an upload, and their weights: `w`, or the samples `n`, or all alike."""
    mean, classes = getattr(up, "mean", None), getattr(up, "cls", None)
    if mean is None or classes is None:
        raise ConfigError(f"{method} uploads no prototypes to draw; choose a run of a method that does")
    weight = next((found for name in ("w", "n") if (found := getattr(up, name, None)) is not None), None)
    weight = torch.ones(len(mean)) if weight is None else weight
    return mean[classes == cls], weight[classes == cls]


def _placed(parts: list[tuple[int, Tensor, Tensor]]) -> Placed:
    return Placed(
        torch.cat([rows for _, rows, _ in parts]).cpu().double(),
        [client for client, rows, _ in parts for _ in range(len(rows))],
        [float(one) for _, _, weight in parts for one in weight],
    )
