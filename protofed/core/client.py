"""One client's part of a round: the functions that every engine maps over clients.

`run_leg` is the whole of it: begin → train → finish. The cohort engine uses the same `begin` and
`finish`, and trains many clients at once in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .algorithm import Leg, Phase, Ran, View
from .data import Batch, LocalData, batch_rows
from .dropout import dropout_layers
from .errors import ConfigError, MessageError
from .net import LiveNet, selects
from .optim import Opt, Stepper
from .record import Record, Tree
from .rng import seed_torch
from .stages import is_stage, stage, staged
from .task import Task, Turn


@dataclass(frozen=True)
class ClientState:
    """What stays at a client between rounds: kept tensors and the method's private memory."""

    kept: Tree = field(default_factory=dict)
    mem: Tree = field(default_factory=dict)


class Work(NamedTuple):
    """What local training did."""

    steps: int
    samples: int
    loss: float  # mean over steps; nan without steps


class Outcome(NamedTuple):
    """A client's answer to one leg."""

    client: int
    n: int
    up: Record
    state: ClientState
    work: Work


@dataclass
class Session:
    """A client in the middle of a leg."""

    turn: Turn
    leg: Leg
    data: LocalData
    down: Record
    mem: Tree
    tensors: Tree
    view: View
    before: Any
    steps: int = 0
    samples: int = 0
    loss_sum: Tensor | float = 0.0
    sums: dict[str, Tensor] = field(default_factory=dict)

    def collect(self, loss: Tensor, sums: Mapping[str, Tensor], samples: int) -> None:
        """Count one step, and add its sums."""
        self.steps += 1
        self.samples += samples
        self.loss_sum = self.loss_sum + loss.detach()
        for key, value in sums.items():
            value = value.detach()
            self.sums[key] = self.sums[key] + value if key in self.sums else value


def run_leg(turn: Turn, leg: Leg, state: ClientState | None, data: LocalData, down: Record) -> Outcome:
    """Carry out one leg at one client."""
    session = begin(turn, leg, state, data, down)
    net = turn.task.live(turn.group)
    for number, phase in enumerate(leg.phases):
        _train(session, net, phase, number)
    return finish(session, net)


def kept_names(task: Task, group: int) -> list[str]:
    """Names of the tensors that stay at the client."""
    names, keep = task.names(group), task.algorithm.keep
    buffers = names.buffers if "buffers" in keep else frozenset()
    return [name for name in names.all if name in buffers or selects(keep, name)]


def assemble(task: Task, turn: Turn, state: ClientState | None, down: Record) -> Tree:
    """The client's tensors: what it kept, else its seeded start, overlaid by what came down."""
    tensors = dict(state.kept) if state else {}
    if any(name not in tensors for name in kept_names(task, turn.group)):
        first = task.fresh(turn.group, turn.client)
        tensors = {**{name: first[name] for name in kept_names(task, turn.group)}, **tensors}
    tensors = task.algorithm.load(tensors, down, turn)
    for name in task.names(turn.group).all:
        if name not in tensors:
            raise ConfigError(
                f"{task.algorithm.name}: client {turn.client} has no value for tensor {name!r}: it is "
                "neither kept nor in the download; add its prefix to `keep` or send it"
            )
    return tensors


@is_stage("prepare")
@torch.no_grad()
def begin(turn: Turn, leg: Leg, state: ClientState | None, data: LocalData, down: Record) -> Session:
    """Install the tensors, then `prepare` and `before` in eval mode."""
    task = turn.task
    tensors = assemble(task, turn, state, down)
    net = task.live(turn.group)
    net.install(tensors)
    set_modes(net, training=False)
    mem = state.mem if state else {}
    view = task.algorithm.prepare(net, data, down, mem, turn)
    before = task.algorithm.before(net, data, down, mem, turn)
    return Session(turn, leg, data, down, mem, tensors, view, before)


@torch.no_grad()
def finish(session: Session, net: LiveNet) -> Outcome:
    """`upload` in eval mode; the new state is committed by the engine once the reply is accepted."""
    turn, task = session.turn, session.turn.task
    assert turn.client is not None
    set_modes(net, training=False)
    mean = float(session.loss_sum) / session.steps if session.steps else float("nan")
    if session.steps and not torch.isfinite(torch.tensor(mean)):
        raise MessageError(
            f"{task.algorithm.name}: client {turn.client}, round {turn.round}: the training loss is {mean}; "
            "lower lr or the weight of the extra loss terms, or look at this client's data"
        )
    lr = task.opt.lr * task.lr_factor(turn.round)
    ran = Ran(session.steps, lr, session.tensors, session.sums, session.before, session.view)
    with stage("upload"):
        up, mem = task.algorithm.upload(net, session.data, session.down, session.mem, ran, turn)
    names = set(kept_names(task, turn.group))
    kept = {name: tensor for name, tensor in net.tensors().items() if name in names} if names else {}
    work = Work(session.steps, session.samples, mean)
    return Outcome(turn.client, len(session.data), up, ClientState(kept, mem), work)


def trained_names(task: Task, group: int, phase: Phase, number: int) -> list[str]:
    """Names of the parameters that a phase moves."""
    names = task.names(group)
    found = [name for name in names.parameters if selects(phase.train, name) and name not in names.frozen]
    if not found:
        raise ConfigError(
            f"{task.algorithm.name}: phase {number} trains {phase.train}, but no parameter that requires a "
            "gradient has a name that starts so; correct the prefix (as in 'model.head.') or the model"
        )
    return found


def phase_opts(task: Task, phase: Phase, turn: Turn) -> dict[str, Opt]:
    """Optimisers by prefix, the task's own for all else, at this round's learning rate."""
    factor = task.lr_factor(turn.round)
    given = {p: opt if isinstance(opt, Opt) else replace(task.opt, **opt) for p, opt in phase.opts.items()}
    return {prefix: opt.scaled(factor) for prefix, opt in {"": task.opt, **given}.items()}


def phase_batches(
    session: Session, phase: Phase, number: int, skip_single: bool
) -> Iterator[tuple[Tensor, Tensor, Tensor, bool]]:
    """(x, y, row numbers, last epoch?) of every step. Batch order and augmentation follow the turn.

    `skip_single` leaves out batches of one sample, on which BatchNorm cannot be computed.
    """
    turn, task = session.turn, session.turn.task
    size = phase.batch_size or task.batch_size
    epochs = turn.epochs if phase.epochs is None else phase.epochs
    if phase.data == "public":
        public = turn.public_batches(size)
        assert task.public is not None
        data = task.public
        rows = ((idx, e == epochs - 1) for e in range(epochs) for idx in public)
    else:
        data = session.data
        order = turn.generator(f"batches {number}")
        rows = batch_rows(len(data), size, epochs, order, task.drop_last)  # type: ignore[assignment]
    augment = turn.generator(f"augment {number}") if data.augment else None
    step = 0
    for idx, last in rows:
        if skip_single and len(idx) == 1:
            continue
        if phase.steps is not None and step == phase.steps:
            return
        step += 1
        x = data.x[idx]
        if data.augment and augment is not None:
            x = data.augment(x, augment)
        yield x, data.y[idx], idx, last


def _train(session: Session, net: LiveNet, phase: Phase, number: int) -> None:
    turn, task = session.turn, session.turn.task
    algorithm = task.algorithm
    parameters = set(task.names(turn.group).parameters)
    live = {n: t for n, t in net.named().items() if n in parameters}
    trained = trained_names(task, turn.group, phase, number)
    moving = set(trained)
    for name, parameter in live.items():
        parameter.requires_grad_(name in moving)
    set_modes(net, training=True, frozen=phase.eval)
    params = [live[n] for n in trained]
    stepper = Stepper(trained, phase_opts(task, phase, turn))
    layers = [layer for module in net.modules.values() for layer in dropout_layers(module)]
    draws = turn.generator(f"draw {number}")
    masks = turn.generator(f"dropout {number}")
    loss_hook = getattr(algorithm, phase.loss)
    flags = {flag: torch.tensor(float(flag), dtype=task.dtype) for flag in (False, True)}
    with torch.enable_grad(), _torch_seed(turn.seed(f"torch {number}")):
        batches = phase_batches(session, phase, number, has_batchnorm(net, phase.eval))
        for x, y, idx, last in staged("data", batches):
            if layers:
                fill_seeds(layers, torch.randint(2**40, (), generator=masks))
            rand = algorithm.draw(draws, len(idx), session.view)
            with stage("forward"):
                out = loss_hook(net, Batch(x, y, idx, flags[last], rand), session.view)
            loss, sums = out if isinstance(out, tuple) else (out, {})
            with stage("backward"):
                grads = torch.autograd.grad(loss, params, allow_unused=True)
            with stage("optimiser"):
                stepper.step(params, grads)
            session.collect(loss, sums, len(idx))


def has_batchnorm(net: LiveNet, frozen: tuple[str, ...] = ()) -> bool:
    """Whether a BatchNorm layer computes statistics; one in a module in eval mode does not."""
    batchnorm = nn.modules.batchnorm._BatchNorm
    return any(
        isinstance(layer, batchnorm) and not selects(frozen, f"{part}.{name}.")
        for part, module in net.modules.items()
        for name, layer in module.named_modules()
    )


def fill_seeds(layers: list[Any], seed: Tensor) -> None:
    for layer in layers:
        layer.seed.copy_(seed)


def set_modes(net: LiveNet, training: bool, frozen: tuple[str, ...] = ()) -> None:
    for part, module in net.modules.items():
        module.train(training)
        for name, child in module.named_modules() if frozen and training else ():
            if selects(frozen, f"{part}.{name}." if name else f"{part}."):
                child.train(False)


class _torch_seed:
    """Seeds torch's global generator for modules that draw from it on their own, and restores it."""

    def __init__(self, seed: int):
        self.seed = seed

    def __enter__(self) -> None:
        self.state = torch.get_rng_state()
        seed_torch(self.seed)

    def __exit__(self, *_: object) -> None:
        torch.set_rng_state(self.state)
