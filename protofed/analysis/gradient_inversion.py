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

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..core.client import assemble
from ..core.record import Tree
from ..experiment import Experiment
from ..trust.uploads import sending
from .inversion import Descent, descend
from .membership import part_of, with_own_layers
from .uploads_again import start_of

CHANGE = "the change of the weights"
TINY = 1e-8  # length below which nothing points anywhere
Loss = Callable[[Tree, Tensor], Tensor]


class Attempt(NamedTuple):
    """What came up, and from where inputs [J, …] are looked for; `smooth`: see `descend`."""

    came_up: Tree
    starts: Tensor
    smooth: bool


def change_of(experiment: Experiment, client: int, came_up: Tree) -> str:
    """How the attack is called: layers that are not sent are the client's own, as if somebody had them."""
    return CHANGE + with_own_layers(experiment, client, came_up)


def sent_down(experiment: Experiment, client: int) -> Tree:
    """The tensors that the client begins its next training with."""
    turn, state, down = start_of(experiment, sending(experiment.task.algorithm)[0], client)
    with torch.no_grad():
        return assemble(experiment.task, turn, state, down)


def invert_changes(
    experiment: Experiment, client: int, cls: Tensor, attempts: Sequence[Attempt], how: Descent
) -> list[Tensor]:
    """Of each attempt inputs [J, …] of classes [J] whose common gradient points along the change."""
    task, group = experiment.task, experiment.task.group_of(client)
    before, first = sent_down(experiment, client), attempts[0]
    part = part_of(first.came_up)

    def loss(weights: Tree, x: Tensor) -> Tensor:
        net = task.net(group, {**before, **weights})
        return cross_entropy((net if part == "model" else net[part])(x)[1], cls)

    sent = {name: before[name] for name in task.names(group).parameters if name in first.came_up}
    weights = _reached(loss, sent, first.starts)
    return [_descended(loss, weights, one, how) for one in attempts]


def _reached(loss: Loss, weights: Tree, x: Tensor) -> Tree:
    """Those that the loss depends on: projections, for instance, are not in it."""
    leaves = {name: one.detach().clone().requires_grad_() for name, one in weights.items()}
    found = torch.autograd.grad(loss(leaves, x), list(leaves.values()), allow_unused=True)
    return {name: leaf for (name, leaf), one in zip(leaves.items(), found) if one is not None}


def _descended(loss: Loss, weights: Tree, attempt: Attempt, how: Descent) -> Tensor:
    angle = angle_to(_flat(one.detach() - attempt.came_up[name] for name, one in weights.items()))

    def away(x: Tensor) -> Tensor:
        gradient = torch.autograd.grad(loss(weights, x), list(weights.values()), create_graph=True)
        return angle(_flat(gradient)).expand(len(x))

    return descend(away, attempt.starts, torch.full((len(attempt.starts),), attempt.smooth), how)


def _flat(parts: Iterable[Tensor]) -> Tensor:
    return torch.cat([one.flatten() for one in parts])


def angle_to(change: Tensor) -> Callable[[Tensor], Tensor]:
    """1 − cos of the angle that a gradient makes with the change."""
    unit = change / _length(change)
    return lambda gradient: _Angle.apply(gradient, unit)  # type: ignore[no-untyped-call]


def _length(vector: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(vector, dim=0, keepdim=True)
    return length.clamp(min=TINY)


class _Angle(torch.autograd.Function):
    """1 − cos(g, c), where c has length 1; torch's cosine similarity to the bit. With millions of weights
    each pass over them takes milliseconds, and autograd makes three times as many, all into new memory."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, change: Tensor) -> Tensor:
        length = _length(gradient)
        unit = gradient / length
        ctx.save_for_backward(unit, length, change)
        angle: Tensor = 1 - (unit * change).sum()
        return angle

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        unit, length, change = ctx.saved_tensors
        pull = change * -grads[0]
        along = (unit / length).mul_(pull).sum()
        return pull.div_(length).sub_(unit * along), None
