"""What one client adds to the sums of a leg, no longer than a bound: for the server, or for a client itself.

Rows of classes (prototypes) go into the sums as (a_c · mean_c …, w · a_c …) over all classes, zeros where the
client has none; a_c is the field that the method weighs by, or 1. What is averaged as a whole (weights) goes
in as its change from the server's state, every client alike: weights by sample counts have no bound. A leg
with several parts gives each the same share of the bound, B/√parts, so that large ones do not crowd out
others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..core.algorithm import Leg
from ..core.averages import SAMPLES, Averaged
from ..core.record import Tree


class Part(NamedTuple):
    """Fields of an upload that are shortened together: rows of the same classes, or one field as a whole."""

    fields: tuple[Averaged, ...]

    @property
    def by(self) -> str:
        """The field of classes; "" for a whole."""
        return self.fields[0].by


def parts_of(leg: Leg) -> list[Part]:
    """The parts of what a leg's server averages."""
    kinds: dict[tuple[str, str], list[Averaged]] = {}
    for one in leg.averages:
        kinds.setdefault((one.by, "" if one.by else one.field), []).append(one)
    return [Part(tuple(fields)) for fields in kinds.values()]


def shorten(vector: Tensor, bound: float) -> Tensor:
    """The vector, no longer than the bound: V · min(1, B / ‖V‖)."""
    length = torch.linalg.vector_norm(vector)
    short: Tensor = vector * (bound / length.clamp(min=bound))
    return short


def contribution(up: Any, leg: Leg, state: Any, classes: int, weight: float, bound: float) -> list[Tensor]:
    """One client's summands, one vector a part, in float64; together no longer than the bound."""
    parts = parts_of(leg)
    share = bound / math.sqrt(len(parts))
    return [shorten(summand(up, part, state, classes, weight), share) for part in parts]


def summand(up: Any, part: Part, state: Any, classes: int, weight: float) -> Tensor:
    """A part of an upload as one vector, before it is shortened."""
    if part.by:
        return rows_table(up, part.fields, classes, weight).flatten()
    value = getattr(up, part.fields[0].field)
    start = reference(state, part.fields[0].field, value)
    return flat(value) - flat(start)


def rows_table(up: Any, fields: Sequence[Averaged], classes: int, weight: float) -> Tensor:
    """[C, D + 1]: a_c · mean_c beside w · a_c; zeros for classes that are not in the upload."""
    cls = getattr(up, fields[0].by)
    rows = torch.cat([getattr(up, one.field).double().reshape(len(cls), -1) for one in fields], 1)
    named = fields[0].weight
    a = getattr(up, named).double() if named not in ("", SAMPLES) else rows.new_ones(len(cls))
    both = torch.cat([a[:, None] * rows, weight * a[:, None]], 1)
    return both.new_zeros(classes, both.shape[1]).index_add_(0, cls, both)


def reference(state: Any, field: str, like: Any) -> Any:
    """What the server holds under the same name, from which changes are measured; zeros where it holds
    nothing of the shape."""
    held = getattr(state, field, None)
    if isinstance(like, Tensor):
        fits = isinstance(held, Tensor) and held.shape == like.shape
        return held if fits else torch.zeros_like(like)
    held = held if isinstance(held, Mapping) else {}
    return {
        name: held[name] if name in held and held[name].shape == tensor.shape else torch.zeros_like(tensor)
        for name, tensor in like.items()
    }


def flat(value: Tensor | Tree) -> Tensor:
    """All floats of a tensor or tree as one vector, trees in the order of their names."""
    tensors = [value] if isinstance(value, Tensor) else [value[name] for name in sorted(value)]
    floats = [tensor.double().flatten() for tensor in tensors if tensor.is_floating_point()]
    return torch.cat(floats) if floats else torch.zeros(0, dtype=torch.float64)


def unflat(vector: Tensor, like: Tensor | Tree) -> Any:
    """Inverse of `flat`: a vector in the shapes of `like`, whose integers stay."""
    if isinstance(like, Tensor):
        return vector.reshape(like.shape).to(like.dtype)
    made, start = dict(like), 0
    for name in sorted(like):
        if like[name].is_floating_point():
            size = like[name].numel()
            made[name] = vector[start : start + size].reshape(like[name].shape).to(like[name].dtype)
            start += size
    return made
