"""What the server asks of an upload beyond its declaration (`Record.check`: kinds, shapes, finite values).

names     arrays of the declaration, no others; no hole in a head or base that came down
shapes    weights named like tensors of the client's model have their shapes
counts    no negative whole numbers; classes (`cls`) below C
norms     no array longer than the limit
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..core.algorithm import Leg
from ..core.errors import MessageError
from ..core.record import Record, Tree
from ..core.task import Task

CLASS_FIELD = "cls"


def read_upload(task: Task, leg: Leg, arrays: Tree, down: Record, client: int, max_norm: float) -> Record:
    """The upload as its record, or MessageError with the client and what is wrong."""
    who = f"{task.algorithm.name}: upload of client {client}"
    try:
        up = leg.up.of(arrays)
    except MessageError as error:
        raise MessageError(f"{who}: {error}") from error
    up.check(task.sizes, who)
    shapes = _shapes(task, client)
    for spec in up.specs():
        value = getattr(up, spec.name)
        if spec.dims is None:
            _check_tree(value, getattr(down, spec.name, {}), shapes, f"{who}: {spec.name}")
        elif not spec.floating:
            high = task.C if spec.name == CLASS_FIELD else None
            _check_whole(value, high, f"{who}: {spec.name}")
    for name, tensor in arrays.items():
        _check_norm(tensor, max_norm, f"{who}: {name}")
    return up


def _shapes(task: Task, client: int) -> dict[str, tuple[int, ...]]:
    named = task.live(task.group_of(client)).named()
    return {name: tuple(tensor.shape) for name, tensor in named.items()}


def _check_tree(
    tree: Tree, came_down: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]], where: str
) -> None:
    for name, tensor in tree.items():
        wanted = shapes.get(name)
        if wanted is not None and tuple(tensor.shape) != wanted:
            raise MessageError(f"{where}/{name} has shape {list(tensor.shape)}; the model's {list(wanted)}")
    halves = {_half(name) for name in tree}
    missing = sorted(n for n in came_down if n not in tree and (_half(n) in halves or not tree))
    if missing and tree.keys() <= came_down.keys():
        raise MessageError(f"{where}/{missing[0]} is missing, although it came down")


def _half(name: str) -> str:
    """The part of a client's modules that methods share as a whole: "model.head", "gen.inner"."""
    return ".".join(name.split(".")[:2])


def _check_whole(value: Tensor, high: int | None, where: str) -> None:
    if not value.numel():
        return
    low, top = int(value.min()), int(value.max())
    if low < 0:
        raise MessageError(f"{where} holds {low}; expected no negative numbers")
    if high is not None and top >= high:
        raise MessageError(f"{where} holds class {top}; expected 0 to {high - 1}")


def _check_norm(tensor: Tensor, limit: float, where: str) -> None:
    if tensor.is_floating_point() and tensor.numel():
        norm = float(torch.linalg.vector_norm(tensor, dtype=torch.float64))
        if norm > limit:
            raise MessageError(f"{where} has norm {norm:.3g}; the limit is {limit:.3g} (max_norm)")
