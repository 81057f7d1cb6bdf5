"""Uploads as vectors of whole numbers that can be added, and back: what secure sums put under masks.

    block 0        steps, samples, loss, values that were clipped; holders of each class; trees and tensors
    block 1 + c    the rows of class c: weight · values and counts; zeros from a client without the class

A value x of weight w becomes round(w·x / step), clipped to ± w·bound / step; weights are a class's count,
the client's samples, or 1; what the server only adds (`added`) has weight 1 and a bound for each sample. A
client without a class adds exact zeros, so of a mean no more is lost than half a step. All sums are exact,
whatever their order: words wrap around, and have room for the sum of all clients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from ..core.algorithm import Leg
from ..core.averages import Averaged
from ..core.errors import ConfigError
from ..core.record import Record

FIGURES = ("trained", "steps", "samples", "clipped", "loss")  # in front of block 0
EXACT = 2.0**53  # whole numbers up to here are exact in float64
Shapes = dict[str, tuple[bool, tuple[int, ...]]]  # array → whole numbers?, shape (of a class: of one row)


@dataclass(frozen=True)
class Scale:
    """How values become whole numbers, the same at all clients of a sum."""

    bound: float  # of a value
    step: float
    bits: int
    clients: int  # that may be in the sum

    @property
    def most(self) -> int:
        """The largest whole number (a count, say) of one client."""
        return int((1 << (self.bits - 2)) // max(1, self.clients))


def bits_for(bound: float, step: float, weight: float, clients: int) -> int:
    """Fewest bits that hold the sum of all clients, whose weights add up to `weight`.

    >>> bits_for(100, 1e-4, 500, 3), bits_for(100, 1e-4, 5000, 3)
    (32, 64)
    """
    most = 2 * (max(weight, clients) * bound / step + clients)
    if most / 2 > EXACT:
        raise ConfigError(
            f"secure_bound {bound:g} and secure_step {step:g}: the sum of {weight:.0f} samples has more than "
            "53 bits; lower the bound, or take a larger step"
        )
    return 32 if most < 2**32 else 64


class Part(NamedTuple):
    """One array, or the rows of one field for a class."""

    name: str
    shape: tuple[int, ...]
    whole: bool  # whole numbers
    weight: str
    added: bool

    @property
    def size(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """What lies where in the vector of a leg's upload."""

    kind: type[Record]
    open: tuple[Part, ...]
    rows: tuple[Part, ...]
    by: str  # the field of classes, if there are rows
    classes: int  # 0: no rows
    plain: tuple[str, ...]
    scale: Scale

    @property
    def sizes(self) -> list[int]:
        """Words of each block."""
        first = len(FIGURES) + self.classes + sum(part.size for part in self.open)
        return [first] + [sum(part.size for part in self.rows)] * self.classes

    @property
    def shapes(self) -> Shapes:
        """What `make_layout` needs to be told of it."""
        return {part.name: (part.whole, part.shape) for part in (*self.open, *self.rows)}

    @property
    def adds(self) -> bool:
        """Whether the server adds what it gets, and clients may have nothing to add."""
        return any(part.added for part in (*self.open, *self.rows))


def shapes_in(leg: Leg, arrays: Mapping[str, Tensor]) -> Shapes:
    """The shapes of an upload, of rows of classes the shape of one."""
    rows = _row_fields(leg)
    return {
        name: (not tensor.is_floating_point(), tuple(tensor.shape[1:] if name in rows else tensor.shape))
        for name, tensor in arrays.items()
        if name not in leg.plain and name != class_field(leg)
    }


def blocks_of(leg: Leg, classes: int) -> int:
    """How many blocks the vector of a leg has."""
    return 1 + (classes if class_field(leg) else 0)


def make_layout(method: str, leg: Leg, shapes: Shapes, classes: int, scale: Scale) -> Layout:
    """The layout of uploads with these shapes; ConfigError if the method sends what is not for sums."""
    by, rows = class_field(leg), _row_fields(leg)
    named = {averaged.field: averaged for averaged in leg.averages}
    found: dict[bool, list[Part]] = {True: [], False: []}
    for name in sorted(shapes):
        field = name.split("/")[0]
        averaged = named.get(field, Averaged(field))
        if field not in named and name not in rows:
            raise ConfigError(
                f"{method}: its uploads hold {name}, of which the server does not use a sum alone: secure "
                "sums cannot hide it"
            )
        whole, shape = shapes[name]
        part = Part(name, shape, whole, averaged.weight, averaged.added)
        found[name in rows].append(part)
    number = classes if by else 0
    return Layout(leg.up, tuple(found[False]), tuple(found[True]), by, number, leg.plain, scale)


def class_field(leg: Leg) -> str:
    """The field of classes of a leg's rows."""
    return next((averaged.by for averaged in leg.averages if averaged.by), "")


def _row_fields(leg: Leg) -> set[str]:
    """Fields with a row for each class: those averaged by class, and whole numbers beside the classes."""
    by = class_field(leg)
    dims = {spec.name: spec.dims for spec in leg.up.specs()}
    counts = {s.name for s in leg.up.specs() if by and not s.floating and s.dims == dims[by] and s.name != by}
    return counts | {averaged.field for averaged in leg.averages if averaged.by}
