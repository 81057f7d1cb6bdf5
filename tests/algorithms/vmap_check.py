"""Does a method's loss run under `torch.func.vmap`, with the values and gradients of the plain calls?

from vmap_check import check_vmap

def test_my_method_under_vmap():
    check_vmap(Toy("my_method"))
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from protofed.core.client import begin
from protofed.core.data import Batch
from protofed.core.net import BoundNet, selects
from protofed.core.task import ClientTurn
from protofed.core.train import Session, phase_batches, set_modes
from protofed.experiment import Experiment
from protofed.testing import Toy

TOLERANCE = 1e-10


def check_vmap(toy: Toy) -> None:
    """Play a round, so that global knowledge exists; then compare two clients' losses and gradients,
    called one by one and stacked, in every phase of every leg."""
    experiment = toy.build(rounds=2)
    experiment.federation.play()
    for leg_number, leg in enumerate(experiment.task.algorithm.legs):
        for number in range(len(leg.phases)):
            _check_phase(experiment, leg_number, number)


def _check_phase(experiment: Experiment, leg_number: int, number: int) -> None:
    task = experiment.task
    leg = task.algorithm.legs[leg_number]
    phase = leg.phases[number]
    sessions, batches = _pair(experiment, leg_number, number)
    net = task.live(sessions[0].turn.group)
    trained = [n for n in task.names(sessions[0].turn.group).parameters if selects(phase.train, n)]
    set_modes(net, True, phase.eval)

    def loss(tensors: Any, batch: Any, view: Any) -> tuple[Tensor, dict[str, Tensor]]:
        out = getattr(task.algorithm, phase.loss)(BoundNet(net.modules, tensors), Batch(*batch), view)
        return out if isinstance(out, tuple) else (out, {})

    def leaves(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {n: t.detach().clone().requires_grad_(n in trained) for n, t in tensors.items()}

    singles = []
    for session, batch in zip(sessions, batches):
        tensors = leaves(session.tensors)
        value, sums = loss(tensors, tuple(batch), session.view)
        grads = torch.autograd.grad(value, [tensors[n] for n in trained], allow_unused=True)
        singles.append((value, sums, grads))
    stack = lambda *parts: tree_map(lambda *ts: torch.stack(ts), *parts)  # noqa: E731
    tensors = leaves(stack(*[s.tensors for s in sessions]))
    inputs = (stack(*map(tuple, batches)), stack(*[s.view for s in sessions]))
    value, sums = torch.func.vmap(loss)(tensors, *inputs)
    grads = torch.autograd.grad(value.sum(), [tensors[n] for n in trained], allow_unused=True)
    for k, single in enumerate(singles):
        _compare((value[k], {n: t[k] for n, t in sums.items()}), single[:2])
        _compare([g if g is None else g[k] for g in grads], list(single[2]))


def _pair(experiment: Experiment, leg_number: int, number: int) -> tuple[list[Session], list[Batch]]:
    """Two clients of one group whose first batches are of equal size."""
    task, federation = experiment.task, experiment.federation
    leg = task.algorithm.legs[leg_number]
    made: dict[int, tuple[Session, Batch]] = {}
    for client in range(task.clients):
        turn = ClientTurn(task, 2, leg.name, client=client, epochs=task.epochs)
        state = federation.engine.store.get(client)
        with torch.no_grad():
            down = task.algorithm.broadcast(federation.state, turn)
        session = begin(turn, leg, state, experiment.data.train(client), down)
        view = tree_map(lambda t: t.clone(), session.view)
        task.live(turn.group).install(task.fresh(turn.group, client))
        _compare(session.view, view)  # a view must not hold the live tensors, which others overwrite
        first = next(phase_batches(session, leg.phases[number], number, False), None)
        if first is not None:
            rand = task.algorithm.draw(turn.generator("draw"), len(first.idx), session.view)
            made[client] = session, first._replace(rand=rand)
    for (one, a), (two, b) in combinations(made.values(), 2):
        if one.turn.group == two.turn.group and len(a.idx) == len(b.idx) > 1:
            return [one, two], [a, b]
    raise AssertionError("the toy federation has no two clients with equal batches")


def _compare(one: Any, two: Any) -> None:
    ours, _ = tree_flatten(one)
    theirs, _ = tree_flatten(two)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.shape == b.shape
            assert torch.allclose(a.double(), b.double(), rtol=TOLERANCE, atol=TOLERANCE), (a - b).abs().max()
