"""The cohort engine: clients of one architecture train together, as one stacked network.

Everything around training (`prepare`, `upload`, tests) is the sequential engine's code, and the loop is the
same too (core/train.py). Only the step differs: the clients' tensors lie stacked along a leading axis, and
`loss` runs under vmap over the clients that have a batch of one size, so batches are never padded and
BatchNorm sees true batches. A loss that carries clients itself (`carries_clients`) is called once, without
vmap: the same numbers with less around them. The gradient is that of the sum of the losses, which is each
client's own.

A stacked step of one or two clients costs more than their steps one by one, so the few clients that
would go on long after all others train alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.func import vmap

from ..core.algorithm import Phase
from ..core.answer import Answer, Failure, Reply
from ..core.client import begin, finish
from ..core.data import Batch
from ..core.errors import EngineError, MessageError
from ..core.optim import StackedStepper
from ..core.record import Tree
from ..core.stages import stage
from ..core.train import Loss, Session, Trainer, Where, phase_opts, stretch, train
from .base import Job
from .sequential import Sequential
from .stacked import CarriedNet, StackedNet, can_stack

FEW = 4  # so many clients make stacking worth it
LARGEST = 50  # clients in one cohort: beyond, memory grows and speed does not


class Cohort(Sequential):
    """Trains clients together; tests them one by one."""

    name: ClassVar[str] = "cohort"
    together: ClassVar[bool] = True

    def run(self, jobs: Sequence[Job]) -> Iterator[Answer]:
        """A reply, or a failure, for each job."""
        for job in {job.turn.group: job for job in jobs}.values():
            if pair := job.turn.task.live(job.turn.group).tied:
                raise EngineError(
                    f"the model's {pair[0]} and {pair[1]} are one tensor, which the cohort engine cannot "
                    "stack; use the engine sequential or workers"
                )
        alone = [job for members in by_group(jobs) for job in self._far_longer(members)]
        answers: dict[int, Answer] = {job.client: answer for job, answer in zip(alone, super().run(alone))}
        rest = [job for job in jobs if job.client not in answers]
        for cohort in cohorts(rest):
            sessions = []
            for job in cohort:
                state, data = self.store.get(job.client), self.data.train(job.client)
                try:
                    sessions.append(begin(job.turn, job.leg, state, data, job.down))
                except MessageError as error:
                    answers[job.client] = Failure(job.client, str(error))
            if sessions:
                answers |= run_cohort(sessions)
        for job in jobs:
            yield answers.pop(job.client)

    def _far_longer(self, members: Sequence[Job]) -> list[Job]:
        """Those with more than twice the work of the FEW-th longest: fewer than FEW clients, for most of
        whose steps nobody would be left to share them with."""
        work = [self.data.size(job.client) * job.turn.epochs for job in members]
        if len(work) < FEW:
            return []
        limit = 2 * sorted(work)[-FEW]
        return [job for job, amount in zip(members, work) if amount > limit]


def by_group(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs by architecture."""
    groups: dict[int, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.turn.group, []).append(job)
    return list(groups.values())


def cohorts(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs of one architecture, at most LARGEST together."""
    return [members[i : i + LARGEST] for members in by_group(jobs) for i in range(0, len(members), LARGEST)]


def run_cohort(sessions: list[Session]) -> dict[int, Reply | Failure]:
    """Train and finish these sessions, all of one architecture and one leg."""
    # Long clients first: those with work left are then mostly the first few, a slice and not a copy.
    sessions = sorted(sessions, key=lambda s: (-len(s.data) * s.turn.epochs, s.turn.client))
    task, group = sessions[0].turn.task, sessions[0].turn.group
    stacked = {name: _stack([s.tensors[name] for s in sessions]) for name in task.names(group).all}
    for number, phase in enumerate(sessions[0].leg.phases):
        train(Stacked(sessions, phase, number, stacked), number)
    net = task.live(group)
    answers: dict[int, Reply | Failure] = {}
    for k, session in enumerate(sessions):
        net.install({name: tensor[k] for name, tensor in stacked.items()})
        try:
            answers[session.turn.client] = finish(session, net)
        except MessageError as error:
            answers[session.turn.client] = Failure(session.turn.client, str(error))
    return answers


class Stacked(Trainer):
    """Many clients at once: their tensors stacked along a leading axis, the loss under vmap."""

    def __init__(self, sessions: Sequence[Session], phase: Phase, number: int, stacked: Tree):
        super().__init__(sessions, phase, number)
        self.stacked = stacked
        params = [stacked[name] for name in self.trained]
        self.stepper = StackedStepper(self.trained, phase_opts(self.task, phase, self.turn), params)
        self.view, self.dims = _stack_views([s.view for s in sessions], self.task.algorithm.name)
        hook = getattr(type(self.task.algorithm), phase.loss)
        stackable = all(can_stack(module) for module in self.net.modules.values())
        self.carried = getattr(hook, "carries_clients", False) and stackable

    def step(self, rows: list[int], batches: list[Batch], seeds: Sequence[Tensor]) -> Loss:
        """One step of the clients `rows`, as one network."""
        where = stretch(rows, self.task.device)
        live = {name: tensor[where] for name, tensor in self.stacked.items()}
        live |= {name: live[name].detach().requires_grad_() for name in self.trained}
        if seeds:
            live |= dict.fromkeys(self.dropout, torch.stack(list(seeds)).to(self.task.device))
        with stage("forward"):
            losses, sums = self._losses(live, _stack_batches(batches), _rows(self.view, self.dims, where))
        params = [live[name] for name in self.trained]
        with stage("backward"):
            grads = torch.autograd.grad(losses.sum(), params, allow_unused=True)
        with stage("optimiser"):
            self.stepper.step_rows(params, grads, where)
        if isinstance(where, Tensor):  # the step worked on copies
            _write_back(self.stacked, live, where)
        return losses, sums

    def _losses(self, tensors: Tree, batch: Batch, view: Any) -> Loss:
        """Losses [k] and sums [k, …] of k clients."""
        if self.carried:
            net = CarriedNet(self.net.modules, tensors, "model", self.net.frozen)
            return self.loss(net, batch, _spread(view, self.dims, batch.y.shape[0]))

        def one(tensors: Tree, batch: Batch, view: Any) -> Loss:
            return self.loss(StackedNet(self.net.modules, tensors, "model", self.net.frozen), batch, view)

        try:
            losses: Loss = vmap(one, in_dims=(0, 0, self.dims))(tensors, batch, view)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise EngineError(
                f"{self.task.algorithm.name} cannot run on the cohort engine ({reason}); "
                "use the engine sequential or workers"
            ) from error
        return losses


# stacking


def _stack(tensors: list[Tensor]) -> Tensor:
    """Along a new first axis; kernels of convolutions in channels_last order."""
    stacked = torch.stack(tensors)
    if stacked.ndim == 5:
        stacked = stacked.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)
    return stacked


def _stack_batches(parts: list[Batch]) -> Batch:
    x, y, idx, last, rand = zip(*parts)
    drawn = {name: torch.stack([one[name] for one in rand]) for name in rand[0]}
    return Batch(torch.stack(x), torch.stack(y), torch.stack(idx), torch.stack(last), drawn)


@torch.no_grad()
def _write_back(stacked: Tree, live: Tree, where: Tensor) -> None:
    for name, tensor in stacked.items():
        tensor[where] = live[name].detach()


def _stack_views(views: list[Any], who: str, key: str = "view") -> tuple[Any, Any]:
    """Views stacked, and the axes for vmap: None for what is the same object at all clients."""
    first = views[0]
    if isinstance(first, dict):
        pairs = {k: _stack_views([v[k] for v in views], who, f"{key}[{k!r}]") for k in first}
        return {k: p[0] for k, p in pairs.items()}, {k: p[1] for k, p in pairs.items()}
    if all(v is first for v in views) or not isinstance(first, Tensor):
        return first, None
    if any(v.shape != first.shape for v in views):
        raise EngineError(
            f"{who} cannot run on the cohort engine: {key} has other shapes at other clients; "
            "use the engine sequential or workers"
        )
    return torch.stack(views), 0


def _spread(view: Any, dims: Any, clients: int) -> Any:
    """What all clients share gets their axis too, without a copy."""
    if isinstance(view, dict):
        return {key: _spread(view[key], dims[key], clients) for key in view}
    if dims == 0 or not isinstance(view, Tensor):
        return view
    return view.expand(clients, *view.shape)


def _rows(view: Any, dims: Any, where: Where) -> Any:
    if isinstance(view, dict):
        return {key: _rows(view[key], dims[key], where) for key in view}
    return view[where] if dims == 0 else view
