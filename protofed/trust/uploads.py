"""What can be said of any method's upload: its fields of classes, of counts and of floats."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ..core.algorithm import Algorithm, Leg
from ..core.answer import Reply
from ..core.averages import Averaged
from ..core.fields import Spec
from ..core.record import Nothing, Record

CLASSES, COUNTS = "cls", "n"


def class_field(kind: type[Record]) -> str:
    """The field that says of which class each row is; "" if there is none."""
    names = {spec.name for spec in kind.specs()}
    return kind.distinct or (CLASSES if CLASSES in names else "")


def row_fields(kind: type[Record]) -> list[Spec]:
    """The fields with a row for each class that is sent, that of the classes included."""
    by = class_field(kind)
    axes = {spec.name: spec.dims[0] for spec in kind.specs() if spec.dims}
    return [spec for spec in kind.specs() if by and axes.get(spec.name) == axes[by]]


def count_field(kind: type[Record]) -> str:
    """The field of counts; "" if there is none."""
    return COUNTS if any(spec.name == COUNTS and not spec.floating for spec in kind.specs()) else ""


def fields_of(leg: Leg) -> tuple[Averaged, ...]:
    """The floats of a leg's upload: as declared, else all, rows of classes by their class."""
    if leg.averages:
        return leg.averages
    by = class_field(leg.up)
    rows = {spec.name for spec in row_fields(leg.up)}
    return tuple(
        Averaged(spec.name, by=by if spec.name in rows else "") for spec in leg.up.specs() if spec.floating
    )


def sending(method: Algorithm) -> list[Leg]:
    """The legs in which something goes up."""
    return [leg for leg in method.legs if leg.up is not Nothing]


def with_floats(reply: Reply, change: Callable[[Tensor], Tensor]) -> Reply:
    """A reply with every tensor of floats in its upload changed."""
    return reply._replace(up=reply.up.map(lambda t: change(t) if t.is_floating_point() else t))
