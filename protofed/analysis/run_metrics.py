"""Measures of a run, taken on an experiment as it stands: finished, reopened, or between two rounds.

    experiment = protofed.experiment.reopen(RunDir.open(path))
    aggregate_mean_margin(experiment)
    mean_mmd(experiment, reference)      # MMD of ProtoMargin

What is measured is in `analysis`, as functions of tensors; here it gets its features, gradients and
prototypes. Nothing changes in the experiment.

Two models can be meant by "the model of client k": the one that is tested there (`evaluated_net`; the
server's, for methods with one model), and W_k, what the client makes of it by local training
(`trained_net`). Each measure takes the one of its source by default, and the other as `net_of`.

Sources: *Prototype Guided Federated Learning of Visual Feature Representations* (ProtoMargin: AMM, MMD,
gradient dissimilarity), *FedProto* (prototype distance). Departures: ProtoMargin names neither the samples
of Q nor a limit for them; ours are at most `samples` rows, drawn once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from ..core.client import assemble, run_leg
from ..core.data import LocalData
from ..core.errors import ConfigError
from ..core.net import BoundNet
from ..core.record import Tree
from ..core.rng import numpy_generator, torch_generator
from ..core.task import ClientTurn
from ..experiment import Experiment
from ..metrics.formulas import amm, mmd
from ..ops.losses import ce
from ..ops.prototypes import class_means, class_sums, features, means, owned
from ..ops.trees import flat

NetOf = Callable[[Experiment, int], BoundNet]


# models


def evaluated_net(experiment: Experiment, client: int) -> BoundNet:
    """The model that is tested at this client, in eval mode."""
    return _net(experiment, client, evaluated_tensors(experiment, client))


@torch.no_grad()
def trained_net(experiment: Experiment, client: int) -> BoundNet:
    """W_k: the client's model after local training from the present state, with the batches of the
    last round, all epochs of it also for a straggler. Costs that training; nothing is kept of it."""
    task, federation = experiment.task, experiment.federation
    if len(task.algorithm.legs) != 1:
        raise ConfigError(
            f"{task.algorithm.name} has several legs a round: measure it with net_of=evaluated_net"
        )
    leg = task.algorithm.legs[0]
    turn = ClientTurn(task, max(1, federation.round), leg.name, client=client, epochs=task.epochs)
    down = task.algorithm.broadcast(federation.state, turn)
    outcome = run_leg(turn, leg, federation.engine.store.get(client), experiment.data.train(client), down)
    return _net(experiment, client, {**outcome.state.kept, **getattr(outcome.up, "weights", {})})


def evaluated_tensors(experiment: Experiment, client: int) -> Tree:
    """The tensors of that model."""
    task, federation = experiment.task, experiment.federation
    turn = ClientTurn(task, federation.round, "eval", client=client)
    with torch.no_grad():
        down = task.algorithm.broadcast(federation.state, turn)
        return assemble(task, turn, federation.engine.store.get(client), down)


def _net(experiment: Experiment, client: int, tensors: Tree) -> BoundNet:
    task = experiment.task
    group = task.group_of(client)
    missing = [name for name in task.names(group).all if name not in tensors]
    if missing:
        raise ConfigError(
            f"{task.algorithm.name}: client {client} neither keeps nor sends {missing[0]!r}: "
            "measure this method with net_of=evaluated_net"
        )
    return task.net(group, tensors)


# prototypes


@torch.no_grad()
def aggregate_prototypes(
    experiment: Experiment, clients: Sequence[int] | None = None, net_of: NetOf = evaluated_net
) -> tuple[Tensor, Tensor]:
    """Class means [C, D], not normalised, over these clients' training samples (all active ones by
    default), and the counts [C]: Eq. 10 of ProtoMargin before the scaling."""
    sums = counts = torch.zeros((), dtype=experiment.task.dtype, device=experiment.task.device)
    for client in experiment.active if clients is None else clients:
        mean, n = class_means(net_of(experiment, client), experiment.data.train(client), experiment.task.C)
        sums, counts = sums + mean * n[:, None], counts + n
    return means(sums, counts), counts


def aggregate_mean_margin(
    experiment: Experiment, clients: Sequence[int] | None = None, net_of: NetOf = evaluated_net
) -> float:
    """AMM (Eq. 15 of ProtoMargin, as `analysis.amm` reads it) of the aggregate model."""
    mean, _, _ = owned(*aggregate_prototypes(experiment, clients, net_of))
    return amm(mean)


@torch.no_grad()
def prototype_distance(experiment: Experiment, clients: Sequence[int] | None = None) -> float:
    """Mean over clients of mse(z, G[y]) on test samples (FedProto, Fig. 4).

    Where a class has several prototypes G[y] is their mean; samples without a prototype are left out,
    and clients without any other.
    """
    task = experiment.task
    found = task.algorithm.prototypes(experiment.federation.state)
    if found is None:
        raise ConfigError(f"{task.algorithm.name} has no global prototypes to measure a distance to")
    sums, count = class_sums(*found, task.C)
    protos, known = means(sums, count), count > 0
    distances = []
    for client in experiment.active if clients is None else clients:
        z, y = _embedded(evaluated_net(experiment, client), experiment.data.test(client))
        z, y = z[known[y]], y[known[y]]
        if len(y):
            distances.append(float((z - protos[y]).square().mean()))
    return sum(distances) / len(distances) if distances else math.nan


# features


@torch.no_grad()
def mean_mmd(
    experiment: Experiment,
    reference: Experiment,
    clients: Sequence[int] | None = None,
    net_of: NetOf = trained_net,
    samples: int = 1000,
) -> float:
    """Eq. 16 of ProtoMargin: mean over clients of MMD(P_k, Q).

    P_k: features of client k's training samples under W_k. Q: features of samples of all clients under
    the model of `reference`, a run of `centralized` on the same data.
    """
    q = reference_features(reference, samples)
    distances = []
    for client in experiment.active if clients is None else clients:
        z, _ = _embedded(net_of(experiment, client), experiment.data.train(client))
        distances.append(mmd(_some(z, samples, client), q))
    return sum(distances) / len(distances)


@torch.no_grad()
def reference_features(reference: Experiment, samples: int = 1000) -> Tensor:
    """Features [at most samples, D] under the reference model, of the same rows in every call."""
    sizes = np.array([reference.data.size(client) for client in reference.active])
    count = min(samples, int(sizes.sum()))
    picked = np.sort(numpy_generator("mmd reference").choice(int(sizes.sum()), count, replace=False))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    owner = np.searchsorted(starts, picked, side="right") - 1
    net = evaluated_net(reference, 0)
    parts = []
    for client in np.unique(owner).tolist():
        own = torch.from_numpy(picked[owner == client] - starts[client])
        data = reference.data.train(client)
        parts.append(_embedded(net, LocalData(data.x[own], data.y[own]))[0])
    return _some(torch.cat(parts), samples, -1)


def _embedded(net: BoundNet, data: LocalData) -> tuple[Tensor, Tensor]:
    """Features and labels of all samples; void positions of dense labels are left out."""
    if not len(data):
        return data.x.new_zeros(0, 1), data.y.new_zeros(0)
    z, y = features(net, data)
    return z[y >= 0], y[y >= 0]


def _some(z: Tensor, most: int, client: int) -> Tensor:
    order = torch.randperm(len(z), generator=torch_generator("mmd rows", client))
    return z[order[:most]]


# training


def gradient_dissimilarity(experiment: Experiment, clients: Sequence[int] | None = None) -> float:
    """(1/K)·Σ_k‖∇L_k(W) − ∇L(W)‖², ∇L = Σ_k p_k ∇L_k with p_k = n_k/n (ProtoMargin, Fig. 2).

    L_k is the mean cross-entropy over all training samples of client k, in eval mode. In one pass, since
    K gradients may not fit in memory: (1/K)·Σ‖g_k‖² − 2·∇L·(1/K)·Σ g_k + ‖∇L‖².
    """
    if len(experiment.task.groups) > 1:
        raise ConfigError("gradient dissimilarity needs one architecture for all clients")
    chosen = list(experiment.active if clients is None else clients)
    sizes = torch.tensor([experiment.data.size(client) for client in chosen], dtype=torch.float64)
    squares = plain = weighted = torch.zeros((), dtype=torch.float64)
    for client, share in zip(chosen, sizes / sizes.sum(), strict=True):
        gradient = full_gradient(experiment, client).double().cpu()
        squares = squares + gradient.square().sum() / len(chosen)
        plain = plain + gradient / len(chosen)
        weighted = weighted + gradient * share
    return float((squares - 2 * (weighted * plain).sum() + weighted.square().sum()).clamp(min=0))


def full_gradient(experiment: Experiment, client: int) -> Tensor:
    """∇L_k of the tested model's cross-entropy over all training samples, as one vector."""
    task, data = experiment.task, experiment.data.train(client)
    names = [n for n in task.names(task.group_of(client)).parameters if n.startswith("model.")]
    tensors = evaluated_tensors(experiment, client)
    leaves = {n: tensors[n].detach().clone().requires_grad_() for n in names}
    net = _net(experiment, client, {**tensors, **leaves})
    total = {n: torch.zeros_like(t) for n, t in leaves.items()}
    valid = int((data.y >= 0).sum())
    with torch.enable_grad():
        for x, y in data.chunks():
            loss = ce(net(x)[1], y) * (int((y >= 0).sum()) / max(1, valid))
            grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
            for name, grad in zip(names, grads, strict=True):
                total[name] += 0 if grad is None else grad
    return flat(total)
