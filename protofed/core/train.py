"""The training loop, one for a single client and for many that train together.

A `Trainer` holds the parameters: one live net here, or the stacked nets of the cohort engine. In each turn of
the loop every client with work left makes one step; clients with batches of one size make it together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from .algorithm import Algorithm, Leg, Phase, View
from .data import Batch, LocalData, epoch_orders, in_batches
from .dropout import SeededDropout, dropout_layers
from .errors import ConfigError
from .fused import FusedUpdates
from .mixed import MixedNet
from .net import LiveNet, selects
from .optim import Opt, Stepper, prefix_of
from .record import Record, Tree
from .rng import seeded
from .stages import stage
from .task import ClientTurn, Task, Turn

Loss = tuple[Tensor, Mapping[str, Tensor]]  # losses [k] and sums [k, …] of the k clients of a step
Where = slice | Tensor  # rows of tensors in which clients lie stacked
_Rows = tuple[Tensor, Tensor, Tensor, bool]  # samples, labels and row numbers of a batch; of the last epoch?
SEEDS_AT_ONCE = 64


@dataclass
class Session:
    """A client in the middle of a leg."""

    turn: ClientTurn
    leg: Leg
    data: LocalData
    down: Record
    mem: Tree
    tensors: Tree
    view: View
    before: Any
    steps: int = 0
    samples: int = 0
    loss_sum: float = 0.0
    sums: dict[str, Tensor] = field(default_factory=dict)


class Trainer(ABC):
    """Parameters of the clients that train together in one phase, and the steps that change them."""

    def __init__(self, sessions: Sequence[Session], phase: Phase, number: int):
        self.sessions = sessions
        self.phase = phase
        self.turn = sessions[0].turn
        self.task = self.turn.task
        self.net = self.task.live(self.turn.group)
        self.trained = trained_names(self.task, self.turn.group, phase, number)
        self.dropout = dropout_names(self.net)
        set_modes(self.net, training=True, frozen=phase.eval)

    @abstractmethod
    def step(self, rows: list[int], batches: list[Batch], seeds: Sequence[Tensor]) -> Loss:
        """One step of the clients `rows`: their batches are of one size, `seeds` are those of their dropout
        layers (none without such layers)."""

    def close(self) -> None:
        """After the last step, also if it failed."""

    def loss(self, net: Any, batch: Batch, view: View) -> Loss:
        """The phase's loss hook; its second result is optional."""
        if (kind := self.task.layers) is not None:
            net = MixedNet(net, self.task.device, kind, self.task.dtype)
        out = getattr(self.task.algorithm, self.phase.loss)(net, batch, view)
        return out if isinstance(out, tuple) else (out, {})


class Alone(Trainer):
    """One client, on the live net of its group."""

    def __init__(self, sessions: Sequence[Session], phase: Phase, number: int):
        super().__init__(sessions, phase, number)
        live, moving = self.net.parameters(), set(self.trained)
        for name, parameter in live.items():
            parameter.requires_grad_(name in moving)
        self.params = [live[name] for name in self.trained]
        opts = phase_opts(self.task, phase, self.turn)
        self.stepper = Stepper(self.trained, opts)
        opt_of = {name: opts[prefix_of(name, opts)] for name in self.trained}
        self.fused = FusedUpdates(self.net, opt_of if self.task.layers is None else {})
        self.layers = [layer for module in self.net.modules.values() for layer in dropout_layers(module)]

    def step(self, rows: list[int], batches: list[Batch], seeds: Sequence[Tensor]) -> Loss:
        """One step of the one client."""
        for layer in self.layers:
            layer.seed.copy_(seeds[0])
        with stage("forward"):
            loss, sums = self.loss(self.net, batches[0], self.sessions[0].view)
        with stage("backward"):
            grads = torch.autograd.grad(loss, self.params, allow_unused=True)
        with stage("optimiser"):
            self.stepper.step(self.params, grads)
            self.fused.after_step()
        return loss[None], {key: value[None] for key, value in sums.items()}

    def close(self) -> None:
        """Leave the live net as it was."""
        self.fused.remove()


def train(trainer: Trainer, number: int) -> None:
    """All steps of a phase, number `number` of its leg."""
    try:
        _train(trainer, number)
    finally:
        trainer.close()


def _train(trainer: Trainer, number: int) -> None:
    sessions, phase, task = trainer.sessions, trainer.phase, trainer.task
    algorithm, skip = task.algorithm, has_batchnorm(trainer.net, phase.eval)
    batches = [phase_batches(session, phase, number, skip) for session in sessions]
    draws = [session.turn.generator(f"draw {number}") for session in sessions]
    masks = [_seeds(session.turn.generator(f"dropout {number}")) for session in sessions]
    draws_numbers = type(algorithm).draw is not Algorithm.draw
    totals = Totals(sessions, task)
    with torch.enable_grad(), seeded(*trainer.turn.key, f"torch {number}"):
        while ready := _next(batches):
            for rows in _of_one_size(ready):
                some = [ready[k] for k in rows]
                size = some[0].idx.shape[0]
                if draws_numbers:
                    drawn = [algorithm.draw(draws[k], size, sessions[k].view) for k in rows]
                    some = [batch._replace(rand=rand) for batch, rand in zip(some, drawn)]
                seeds = [next(masks[k]) for k in rows if trainer.dropout]
                totals.add(rows, size, *trainer.step(rows, some, seeds))
    totals.hand_out()


def _seeds(generator: torch.Generator) -> Iterator[Tensor]:
    """A seed for each step, drawn many at a time: the same numbers as one by one."""
    while True:
        yield from torch.randint(2**40, (SEEDS_AT_ONCE,), generator=generator).unbind()


def _next(batches: Sequence[Iterator[Batch]]) -> dict[int, Batch]:
    """The next batch of each client that has one left."""
    with stage("data"):
        return {k: batch for k, rest in enumerate(batches) if (batch := next(rest, None))}


def _of_one_size(ready: Mapping[int, Batch]) -> list[list[int]]:
    """Clients whose batches are equally large."""
    if len(ready) == 1:
        return [list(ready)]
    sizes: dict[int, list[int]] = {}
    for k, batch in ready.items():
        sizes.setdefault(batch.idx.shape[0], []).append(k)  # len() of a tensor takes five times as long
    return list(sizes.values())


class Totals:
    """Losses and sums of all clients while they train: added up where they lie, handed out at the end."""

    def __init__(self, sessions: Sequence[Session], task: Task):
        self.sessions = sessions
        self.steps = [0] * len(sessions)
        self.loss = torch.zeros(len(sessions), dtype=task.dtype, device=task.device)
        self.sums: dict[str, Tensor] = {}

    def add(self, rows: list[int], size: int, losses: Tensor, sums: Mapping[str, Tensor]) -> None:
        """Count one step of the clients `rows`, with batches of `size`."""
        self._put(self.loss, rows, losses)
        for key, value in sums.items():
            if key not in self.sums:
                self.sums[key] = value.new_zeros(len(self.sessions), *value.shape[1:])
            self._put(self.sums[key], rows, value)
        for k in rows:
            self.steps[k] += 1
            self.sessions[k].samples += size

    def _put(self, total: Tensor, rows: list[int], values: Tensor) -> None:
        where = stretch(rows, total.device)
        if isinstance(where, slice):
            (total if len(rows) == len(total) else total[where]).add_(values.detach())
        else:
            total.index_add_(0, where, values.detach())

    def hand_out(self) -> None:
        """To the sessions, which may have trained in earlier phases."""
        for k, (session, loss) in enumerate(zip(self.sessions, self.loss.tolist())):
            session.steps += self.steps[k]
            session.loss_sum += loss
            for key, value in self.sums.items() if self.steps[k] else ():
                earlier = session.sums.get(key)
                session.sums[key] = value[k].clone() if earlier is None else earlier + value[k]


def stretch(rows: list[int], device: torch.device) -> Where:
    """Ascending rows as an index; the first ones as a slice, which makes no copy."""
    return slice(0, len(rows)) if rows[-1] == len(rows) - 1 else torch.tensor(rows, device=device)


# what a phase trains, and on what


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


def phase_batches(session: Session, phase: Phase, number: int, skip_single: bool) -> Iterator[Batch]:
    """The batch of every step, without random inputs. Order and augmentation follow the turn.

    `skip_single` leaves out batches of one sample, on which BatchNorm cannot be computed.
    """
    turn, task = session.turn, session.turn.task
    size = phase.batch_size or task.batch_size
    epochs = turn.epochs if phase.epochs is None else phase.epochs
    public = phase.data == "public"
    data = task.public_data if public else session.data
    rows = _public_batches(turn, size, epochs) if public else _local_batches(session, size, epochs, number)
    augment = turn.generator(f"augment {number}") if data.augment else None
    flags = [torch.tensor(flag, dtype=task.dtype, device=task.device) for flag in (0.0, 1.0)]
    step = 0
    for x, y, idx, last in rows:
        if skip_single and idx.shape[0] == 1:
            continue
        if phase.steps is not None and step == phase.steps:
            return
        step += 1
        if data.augment and augment is not None:
            x = data.augment(x, augment)
        yield Batch(x, y, idx, flags[last], {})


def _local_batches(session: Session, size: int, epochs: int, number: int) -> Iterator[_Rows]:
    turn, n = session.turn, len(session.data)
    draws = turn.generator(f"batches {number}")
    orders = epoch_orders(n, size, epochs, draws, turn.task.drop_last, turn.fixed_order(n))
    return in_batches(session.data, orders, size)


def _public_batches(turn: Turn, size: int, epochs: int) -> Iterator[_Rows]:
    data = turn.task.public_data
    batches = [idx.to(turn.task.device) for idx in turn.public_batches(size)]
    return ((data.x[idx], data.y[idx], idx, e == epochs - 1) for e in range(epochs) for idx in batches)


def has_batchnorm(net: LiveNet, frozen: tuple[str, ...] = ()) -> bool:
    """Whether a BatchNorm layer computes statistics; one in a module in eval mode does not."""
    batchnorm = nn.modules.batchnorm._BatchNorm
    return any(
        isinstance(layer, batchnorm) and not selects(frozen, f"{part}.{name}.")
        for part, module in net.modules.items()
        for name, layer in module.named_modules()
    )


def dropout_names(net: LiveNet) -> list[str]:
    """Names of the seeds of all dropout layers."""
    return [
        f"{part}.{name}.seed" if name else f"{part}.seed"
        for part, module in net.modules.items()
        for name, layer in module.named_modules()
        if isinstance(layer, SeededDropout)
    ]


def set_modes(net: LiveNet, training: bool, frozen: tuple[str, ...] = ()) -> None:
    """Train or eval mode for all modules, eval mode always for the frozen ones."""
    for part, module in net.modules.items():
        if any(one.training is not training for one in net.within[part]):  # else setting it is a waste
            module.train(training)
        for name, child in module.named_modules() if frozen and training else ():
            if selects(frozen, f"{part}.{name}." if name else f"{part}."):
                child.train(False)
