"""What the server asks of an upload from another machine, beyond what every engine asks (engines/checks.py).

names     those of a reference upload (expected.py), no others, none missing
dtypes    as there
shapes    weights named like tensors of the client's model have their shapes
counts    no negative whole numbers; classes (`cls`) below C; counts (`n`) sum to no more than the samples
          with which the client joined; its number of samples is the one with which it joined
norms     no array longer than the limit
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.answer import Reply
from ..core.errors import MessageError
from ..core.record import Record, Tree
from ..core.task import ClientTurn, Task
from .expected import Expected

CLASS_FIELD, COUNT_FIELD = "cls", "n"


@dataclass(frozen=True)
class UploadChecks:
    """`more` of engines.checks.Checks, for one federation."""

    expected: Expected
    max_norm: float
    samples: Callable[[int], int]  # with which each client joined
    counted: bool = False  # a client's counts are of its samples; with dense labels they are of pixels

    def __call__(self, turn: ClientTurn, reply: Reply, who: str) -> None:
        """MessageError, with `who` in front, for an upload that is not as it must be."""
        joined, arrays = self.samples(turn.client), reply.up.arrays()
        if reply.n != joined:
            raise MessageError(f"{who}: says it has {reply.n} training samples; it joined with {joined}")
        reference = self.expected.known(turn)
        if reference is not None:
            _check_names(arrays, reference, who)
            _check_dtypes(arrays, reference, who)
        _check_shapes(arrays, _shapes(turn.task, turn.group), who)
        _check_whole(reply.up, turn.task.C, joined if self.counted else None, who)
        for name, tensor in arrays.items():
            _check_norm(tensor, self.max_norm, f"{who}: {name}")


def _shapes(task: Task, group: int) -> dict[str, tuple[int, ...]]:
    named = task.live(group).named()
    return {name: tuple(tensor.shape) for name, tensor in named.items()}


def _whole(name: str) -> str:
    """The tensor that a factor belongs to: "factors/aux.head.weight/u" → "factors/aux.head.weight"."""
    return "/".join(name.split("/")[:2])


def _check_names(arrays: Tree, expected: Tree, who: str) -> None:
    got, wanted = ({_whole(name) for name in names} for names in (arrays, expected))
    for name in sorted(wanted - got):
        raise MessageError(f"{who}: {name} is missing")
    for name in sorted(got - wanted):
        raise MessageError(f"{who}: {name} is unexpected: its model has no such tensor to send")


def _check_dtypes(arrays: Tree, expected: Tree, who: str) -> None:
    kinds = {_whole(name): tensor.dtype for name, tensor in expected.items()}
    for name, tensor in arrays.items():
        if tensor.dtype != kinds[_whole(name)]:
            raise MessageError(f"{who}: {name} has dtype {tensor.dtype}; expected {kinds[_whole(name)]}")


def _check_shapes(arrays: Tree, shapes: Mapping[str, tuple[int, ...]], who: str) -> None:
    for name, tensor in arrays.items():
        wanted = shapes.get(name.partition("/")[2])
        if wanted is not None and tuple(tensor.shape) != wanted:
            raise MessageError(f"{who}: {name} has shape {list(tensor.shape)}; the model's {list(wanted)}")


def _check_whole(up: Record, classes: int, samples: int | None, who: str) -> None:
    for spec in up.specs():
        value = getattr(up, spec.name)
        if spec.dims is None or spec.floating or not value.numel():
            continue
        low, top = int(value.min()), int(value.max())
        if low < 0:
            raise MessageError(f"{who}: {spec.name} holds {low}; expected no negative numbers")
        if spec.name == CLASS_FIELD and top >= classes:
            raise MessageError(f"{who}: {spec.name} holds class {top}; expected 0 to {classes - 1}")
        if spec.name == COUNT_FIELD and samples is not None and sum(value.flatten().tolist()) > samples:
            raise MessageError(
                f"{who}: {spec.name} counts {sum(value.flatten().tolist())} samples; it joined with {samples}"
            )


def _check_norm(tensor: Tensor, limit: float, where: str) -> None:
    if tensor.is_floating_point() and tensor.numel():
        norm = float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
        if norm > limit:
            raise MessageError(f"{where} has norm {norm:.3g}; the limit is {limit:.3g} (max_norm)")
