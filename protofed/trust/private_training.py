"""Example-level differential privacy of methods that train: noise in every local step, and in prototypes.

Weights that come out of noisy steps (core/private.py) may be read by the server as they are. Rows declared as
means of embeddings get noise here, in their sums and counts, as at client level but not shortened by client:
one sample moves (S_1 …, w·n_1 …) by at most √(R² + w²), whatever the encoder, which has noise of its own.

A sample has a share in one step of each local epoch and in one such sum a round: so many releases count.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..core.algorithm import Leg
from ..core.answer import Replies
from ..core.errors import ConfigError
from ..core.guard import Guard
from ..core.private import local_epochs
from ..core.task import ClientTurn, Task, Turn
from .budget import Budget
from .levels import ExampleLevel
from .noise import gaussian
from .noisy_rows import class_rows, without_rows
from .summands import Part, rows_table


class PrivateTraining(Guard):
    """Counts what local steps cost, and hides samples in prototypes."""

    def __init__(self, level: ExampleLevel, budget: Budget):
        self.level = level
        self.budget = budget

    def combine(self, replies: Replies, state: Any, leg: Leg, turn: Turn) -> Replies:
        self.budget.round = turn.round
        rows = tuple(one for one in leg.averages if one.embedded)
        if not rows:
            return replies
        got, part, total = replies.all(), Part(rows), None
        for reply in got:
            one = rows_table(reply.up, rows, turn.task.C, self.level.weight)
            total = one if total is None else total + one
        assert total is not None
        total = self.noisy(total, turn)
        made, error = class_rows(got[0].up, part, total, leg, self.deviation, self.level.weight)
        self.budget.notes |= {"withheld": len(total) - len(made[part.by]), "error": {rows[0].field: error}}
        hollow = [reply._replace(up=without_rows(reply.up, leg)) for reply in got]
        first = hollow[0]._replace(up=replace(hollow[0].up, **made))
        return Replies([first, *hollow[1:]])

    @property
    def deviation(self) -> float:
        """Of the noise in each coordinate of sums of embeddings and counts."""
        return self.level.noise * self.level.embedding_bound

    def noisy(self, total: Tensor, turn: Turn) -> Tensor:
        """All that is told of sums and counts [C, D + 1]."""
        noise = gaussian(total.numel(), turn, False).reshape(total.shape).to(total.device)
        return total + self.deviation * noise

    def record(self) -> dict[str, Any]:
        return self.budget.record()

    def spent(self, next_round: int) -> str:
        return self.budget.spent(next_round)


def releases_of(task: Task) -> int:
    """Releases a round in which one sample has a share."""
    prototypes = sum(any(one.embedded for one in leg.averages) for leg in task.algorithm.legs)
    return local_epochs(task.algorithm, task.epochs) + prototypes


def check_training(task: Task) -> None:
    """ConfigError where noise in local steps hides nothing: layers that mix samples, hooks that read them."""
    validate = _validator()
    for group in range(len(task.groups)):
        for part, module in task.live(group).modules.items():
            problems = validate(module.train())
            if problems:
                said = str(problems[0]).split(".")[0]
                raise ConfigError(
                    f"dp example: model {task.groups[group].name} ({part}): {said}; take a model without "
                    "such layers (GroupNorm or LayerNorm instead of BatchNorm)"
                )
    _try_hooks(task)


def _validator() -> Callable[[nn.Module], Sequence[Exception]]:
    """Opacus' list of layers that mix samples. Its import gives the root logger a handler, which would show
    every warning twice: it is taken away again."""
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        from opacus.validators import ModuleValidator
    except ImportError as error:
        raise ConfigError("dp example: needs opacus: pip install 'protofed[privacy]'") from error
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
    return ModuleValidator.validate  # type: ignore[no-any-return]


def _try_hooks(task: Task) -> None:
    """Begin and end the first leg without a step and without samples: a hook that reads them is refused.
    (Later legs need what the first brings; there the seal shows when they are run.)"""
    from ..core.client import begin, finish
    from ..core.private import Sealed

    algorithm = task.algorithm
    with torch.no_grad():
        state = algorithm.init(task, Turn(task, 0))
    none: Any = Sealed(1, algorithm.name)
    leg = algorithm.legs[0]
    turn = ClientTurn(task, 1, leg.name, client=0)
    session = begin(turn, leg, None, none, algorithm.broadcast(state, turn))
    if not any(one.embedded for one in leg.averages):
        finish(session, task.live(turn.group))
