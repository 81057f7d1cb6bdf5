"""The cohort engine: clients of one architecture train together, as one stacked network.

Everything before and after training (`prepare`, `upload`, evaluation) is the sequential engine's code.
In between, the clients' tensors lie stacked along a leading axis; each step runs `loss` under vmap over
the clients that still have work, once per batch size, so batches are never padded and BatchNorm sees
true batches. The gradient is that of the sum of the losses, which is each client's own.

A stacked step of one or two clients costs more than their steps one by one, so the few clients that
would go on long after all others train alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.func import vmap

from ..core.algorithm import Algorithm, Phase
from ..core.client import (
    Outcome,
    Session,
    begin,
    finish,
    has_batchnorm,
    phase_batches,
    phase_opts,
    set_modes,
    trained_names,
)
from ..core.data import Batch
from ..core.dropout import SeededDropout
from ..core.errors import EngineError, MessageError
from ..core.net import LiveNet
from ..core.optim import StackedStepper
from ..core.record import Tree
from ..core.stages import is_stage, stage, staged
from .base import Failure, Job
from .sequential import Sequential
from .stacked import StackedNet

FEW = 4  # so many clients make stacking worth it
LARGEST = 50  # clients in one cohort: beyond, memory grows and speed does not

Step = tuple[Tensor, Tensor, Tensor, bool]


class Cohort(Sequential):
    """Trains clients together; tests them one by one."""

    name: ClassVar[str] = "cohort"
    together: ClassVar[bool] = True

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome | Failure]:
        for job in {job.turn.group: job for job in jobs}.values():
            if pair := job.turn.task.live(job.turn.group).tied:
                raise EngineError(
                    f"the model's {pair[0]} and {pair[1]} are one tensor, which the cohort engine cannot "
                    "stack; use --engine sequential or workers"
                )
        alone = [job for members in by_group(jobs) for job in self._far_longer(members)]
        answers = {_client(job): answer for job, answer in zip(alone, super().run(alone))}
        rest = [job for job in jobs if _client(job) not in answers]
        for cohort in cohorts(rest):
            sessions = []
            for job in cohort:
                client = _client(job)
                state, data = self.store.get(client), self.data.train(client)
                try:
                    sessions.append(begin(job.turn, job.leg, state, data, job.down))
                except MessageError as error:
                    answers[client] = Failure(client, str(error))
            if sessions:
                answers |= run_cohort(sessions)
        for job in jobs:
            yield answers.pop(_client(job))

    def _far_longer(self, members: Sequence[Job]) -> list[Job]:
        """Those with more than twice the work of the FEW-th longest: fewer than FEW clients, for most of
        whose steps nobody would be left to share them with."""
        work = [self.data.size(_client(job)) * job.turn.epochs for job in members]
        if len(work) < FEW:
            return []
        limit = 2 * sorted(work)[-FEW]
        return [job for job, amount in zip(members, work) if amount > limit]


def _client(job: Job) -> int:
    assert job.turn.client is not None
    return job.turn.client


def by_group(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs by architecture."""
    groups: dict[int, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.turn.group, []).append(job)
    return list(groups.values())


def cohorts(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs of one architecture, at most LARGEST together."""
    return [members[i : i + LARGEST] for members in by_group(jobs) for i in range(0, len(members), LARGEST)]


def run_cohort(sessions: list[Session]) -> dict[int, Outcome | Failure]:
    """Train and finish these sessions, all of one architecture and one leg."""
    # Long clients first: those with work left are then mostly the first few, a slice and not a copy.
    sessions = sorted(sessions, key=lambda s: (-len(s.data) * s.turn.epochs, s.turn.client))
    task, group = sessions[0].turn.task, sessions[0].turn.group
    net = task.live(group)
    stacked = {name: _stack([s.tensors[name] for s in sessions]) for name in task.names(group).all}
    for number, phase in enumerate(sessions[0].leg.phases):
        _train(sessions, net, phase, number, stacked)
    answers: dict[int, Outcome | Failure] = {}
    for k, session in enumerate(sessions):
        client = session.turn.client
        assert client is not None
        net.install({name: tensor[k] for name, tensor in stacked.items()})
        try:
            answers[client] = finish(session, net)
        except MessageError as error:
            answers[client] = Failure(client, str(error))
    return answers


def _train(sessions: list[Session], net: LiveNet, phase: Phase, number: int, stacked: Tree) -> None:
    """One phase of all clients: in each turn of the loop every client with work left makes one step."""
    turn, task = sessions[0].turn, sessions[0].turn.task
    trained = trained_names(task, turn.group, phase, number)
    set_modes(net, training=True, frozen=phase.eval)
    stepper = StackedStepper(trained, phase_opts(task, phase, turn), [stacked[n] for n in trained])
    single = has_batchnorm(net, phase.eval)
    batches = [staged("data", phase_batches(s, phase, number, single)) for s in sessions]
    draws = [s.turn.generator(f"draw {number}") for s in sessions]
    masks = [s.turn.generator(f"dropout {number}") for s in sessions]
    seeded = _dropout_names(net)
    has_draw = type(task.algorithm).draw is not Algorithm.draw
    view, view_dims = _stack_views([s.view for s in sessions], task.algorithm.name)
    collected = _Collected(sessions, task.dtype)
    with torch.enable_grad():
        while steps := {k: step for k, it in enumerate(batches) if (step := next(it, None)) is not None}:
            for rows in _by_size(steps):
                batch = _stack_batch([steps[k] for k in rows], task.dtype)
                if has_draw:
                    drawn = [task.algorithm.draw(draws[k], batch.x.shape[1], sessions[k].view) for k in rows]
                    batch = batch._replace(rand={n: torch.stack([d[n] for d in drawn]) for n in drawn[0]})
                where = slice(0, len(rows)) if rows == list(range(len(rows))) else torch.tensor(rows)
                live = {name: tensor[where] for name, tensor in stacked.items()}
                live |= {n: live[n].detach().requires_grad_() for n in trained}
                if seeded:
                    seeds = torch.stack([torch.randint(2**40, (), generator=masks[k]) for k in rows])
                    live |= dict.fromkeys(seeded, seeds)
                some = _rows(view, view_dims, where)
                losses, sums = _losses(net, phase.loss, task.algorithm, live, batch, some, view_dims)
                params = [live[n] for n in trained]
                with stage("backward"):
                    grads = torch.autograd.grad(losses.sum(), params, allow_unused=True)
                with stage("optimiser"):
                    stepper.step_rows(params, grads, where)
                collected.add(where, losses, sums, batch.x.shape[1])
                if isinstance(where, Tensor):  # the step worked on copies
                    _write_back(stacked, live, where)
    collected.hand_out()


@is_stage("forward")
def _losses(
    net: LiveNet, hook: str, algorithm: Algorithm, tensors: Tree, batch: Batch, view: Any, view_dims: Any
) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses [k] and sums of k clients."""

    def one(tensors: Tree, batch: Batch, view: Any) -> tuple[Tensor, dict[str, Tensor]]:
        out = getattr(algorithm, hook)(StackedNet(net.modules, tensors, "model", net.frozen), batch, view)
        return out if isinstance(out, tuple) else (out, {})

    try:
        losses: tuple[Tensor, dict[str, Tensor]] = vmap(one, in_dims=(0, 0, view_dims))(tensors, batch, view)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise EngineError(
            f"{algorithm.name} cannot run on the cohort engine ({reason}); use --engine sequential or workers"
        ) from error
    return losses


class _Collected:
    """Losses and sums of all clients while they train."""

    def __init__(self, sessions: list[Session], dtype: torch.dtype):
        self.sessions = sessions
        self.steps = [0] * len(sessions)
        self.loss = torch.zeros(len(sessions), dtype=dtype)
        self.sums: dict[str, Tensor] = {}

    def add(self, where: slice | Tensor, losses: Tensor, sums: Mapping[str, Tensor], batch_size: int) -> None:
        self.loss[where] += losses.detach()
        for key, value in sums.items():
            if key not in self.sums:
                self.sums[key] = value.new_zeros(len(self.sessions), *value.shape[1:])
            self.sums[key][where] += value.detach()
        rows = range(where.stop) if isinstance(where, slice) else where.tolist()
        for k in rows:
            self.steps[k] += 1
            self.sessions[k].steps += 1
            self.sessions[k].samples += batch_size

    def hand_out(self) -> None:
        for k, session in enumerate(self.sessions):
            session.loss_sum = session.loss_sum + self.loss[k]
            if self.steps[k]:
                for key, value in self.sums.items():
                    session.sums[key] = (
                        session.sums[key] + value[k] if key in session.sums else value[k].clone()
                    )


# stacking


def _stack(tensors: list[Tensor]) -> Tensor:
    """Along a new first axis; kernels of convolutions in channels_last order."""
    stacked = torch.stack(tensors)
    if stacked.ndim == 5:
        stacked = stacked.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)
    return stacked


def _by_size(steps: Mapping[int, Step]) -> list[list[int]]:
    """Clients with equal batch sizes."""
    sizes: dict[int, list[int]] = {}
    for k, step in steps.items():
        sizes.setdefault(len(step[2]), []).append(k)
    return list(sizes.values())


def _stack_batch(parts: list[Step], dtype: torch.dtype) -> Batch:
    last = torch.tensor([float(part[3]) for part in parts], dtype=dtype)
    x, y, idx = (torch.stack([part[i] for part in parts]) for i in (0, 1, 2))  # type: ignore[misc]
    return Batch(x, y, idx, last, {})


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
            "use --engine sequential or workers"
        )
    return torch.stack(views), 0


def _rows(view: Any, dims: Any, where: slice | Tensor) -> Any:
    if isinstance(view, dict):
        return {key: _rows(view[key], dims[key], where) for key in view}
    return view[where] if dims == 0 else view


def _dropout_names(net: LiveNet) -> list[str]:
    return [
        f"{part}.{name}.seed" if name else f"{part}.seed"
        for part, module in net.modules.items()
        for name, layer in module.named_modules()
        if isinstance(layer, SeededDropout)
    ]
