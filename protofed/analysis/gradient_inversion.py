"""Inputs found from a change of weights: those whose gradient points the way that the weights went.

    x* = argmin_x 1 − cos(∇_w CE(w; x, c), w − w′) + what is held to be likely

w went down to the client and w′ came up; x has one input for each class c that the client holds, which the
attacker is taken to know. After Zhu et al., "Deep Leakage from Gradients", NeurIPS 2019, and Geiping et al.,
"Inverting Gradients", NeurIPS 2020, whose angle it is. Starts, priors and steps are those of inversion.py.

One step on few samples is a gradient, and is found out. After many steps on many samples the change is the
gradient of no inputs: attacks that play the client's training again may go further. So may, on networks with
BatchNorm, those that take the statistics of batches: here they are those that went down.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy

from ..core.client import assemble
from ..core.record import Tree
from ..experiment import Experiment
from ..trust.uploads import sending
from .inversion import Scale, descend
from .membership import part_of, with_own_layers
from .uploads_again import start_of

CHANGE = "the change of the weights"


def change_of(experiment: Experiment, client: int, came_up: Tree) -> str:
    """How the attack is called: layers that are not sent are the client's own, as if somebody had them."""
    return CHANGE + with_own_layers(experiment, client, came_up)


def sent_down(experiment: Experiment, client: int) -> Tree:
    """The tensors that the client begins its next training with."""
    turn, state, down = start_of(experiment, sending(experiment.task.algorithm)[0], client)
    with torch.no_grad():
        return assemble(experiment.task, turn, state, down)


def invert_change(
    experiment: Experiment,
    client: int,
    came_up: Tree,
    cls: Tensor,
    starts: Tensor,
    smooth: bool,
    scale: Scale,
    steps: int,
) -> Tensor:
    """Inputs [J, …] of classes [J] whose common gradient points along the change, from these starts."""
    task, group = experiment.task, experiment.task.group_of(client)
    before = sent_down(experiment, client)
    names = [name for name in task.names(group).parameters if name in came_up]
    moved = {name: before[name] - came_up[name] for name in names}
    tensors = {name: t.detach().clone().requires_grad_(name in moved) for name, t in before.items()}
    net, part = task.net(group, tensors), part_of(came_up)
    model = net if part == "model" else net[part]

    def away(x: Tensor) -> Tensor:
        loss, sent = cross_entropy(model(x)[1], cls), [tensors[name] for name in names]
        found = torch.autograd.grad(loss, sent, create_graph=True, allow_unused=True)
        used = [(one, moved[name]) for name, one in zip(names, found) if one is not None]  # no projections
        gradient, change = (torch.cat([one.flatten() for one in part]) for part in zip(*used))
        return (1 - cosine_similarity(gradient, change, dim=0)).expand(len(x))

    return descend(away, starts, torch.full((len(cls),), smooth), scale, steps, client)
