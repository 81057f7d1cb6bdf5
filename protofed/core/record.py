"""Records: frozen named tensors. Messages between server and clients, and the server's state.

A record is declared by its fields; from the declaration come the checks, the payload count and the
round trip to flat arrays (files, networks):

    class Protos(Record):
        mean: Float[Tensor, "J D"]   # one row per owned class
        cls: Int[Tensor, "J"]
        n: Int[Tensor, "J"]

Axis letters: C classes, D embedding size, N public samples are fixed by the task; every other letter
(J above) is free, but must be equal within one record. A `Tree` field holds named tensors, such as
weights. Laws, checked by the tests: `T.of(r.arrays())` equals `r`; payload depends on shapes only.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, dataclass_transform

from torch import Tensor

from .errors import MessageError
from .fields import Spec, check_tensor, check_tree, parse

Tree: TypeAlias = dict[str, Tensor]
BYTES_PER_FLOAT = 4  # papers count float32, whatever dtype the simulation computes in


class Payload(NamedTuple):
    """What one message carries: floats (what papers count) and all else in bytes."""

    floats: int = 0
    meta_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Size of the floats."""
        return BYTES_PER_FLOAT * self.floats

    def __add__(self, other: tuple[Any, ...]) -> Payload:
        return Payload(self.floats + other[0], self.meta_bytes + other[1])


@dataclass_transform(frozen_default=True, eq_default=False)
class Record:
    """Base of messages and server states. Subclasses become frozen dataclasses."""

    distinct: ClassVar[str] = ""  # the field of classes, where a client sends one row a class
    _specs: ClassVar[tuple[Spec, ...] | None] = None

    def __init_subclass__(cls) -> None:
        for name in cls.__dict__.get("__annotations__", {}):
            if hasattr(Record, name):
                raise TypeError(f"{cls.__name__}.{name} would hide Record.{name}: choose another name")
        dataclass(frozen=True, eq=False)(cls)
        cls._specs = None

    @classmethod
    def specs(cls) -> tuple[Spec, ...]:
        """The declared fields. Parsed once per class, when first needed."""
        if cls._specs is None:
            hints = typing.get_type_hints(cls)
            fields = dataclasses.fields(cls)  # type: ignore[arg-type]
            cls._specs = tuple(parse(cls.__name__, f.name, hints[f.name]) for f in fields)
        return cls._specs

    def arrays(self) -> Tree:
        """Flat names to tensors: "mean", "weights/model.head.bias"."""
        flat: Tree = {}
        for spec in self.specs():
            value = getattr(self, spec.name)
            if spec.dims is None:
                flat.update({f"{spec.name}/{key}": tensor for key, tensor in value.items()})
            else:
                flat[spec.name] = value
        return flat

    @classmethod
    def of(cls, arrays: Mapping[str, Tensor]) -> Self:
        """Inverse of `arrays`. Names that do not belong here, or are missing, raise MessageError."""
        values: dict[str, Any] = {s.name: {} for s in cls.specs() if s.dims is None}
        plain = {s.name for s in cls.specs() if s.dims is not None}
        for name, tensor in arrays.items():
            field, slash, key = name.partition("/")
            if slash and field in values and field not in plain:
                values[field][key] = tensor
            elif name in plain:
                values[name] = tensor
            else:
                raise MessageError(f"{cls.__name__}: unexpected array {name!r}; declared: {_names(cls)}")
        missing = plain - values.keys()
        if missing:
            raise MessageError(f"{cls.__name__}: array {sorted(missing)[0]!r} is missing")
        return cls(**values)

    def payload(self, buffers: frozenset[str] = frozenset()) -> Payload:
        """Floats are payload; integers, and floats of tree entries named in `buffers`, are meta."""
        floats = meta = 0
        for spec in self.specs():
            value = getattr(self, spec.name)
            items = value.items() if spec.dims is None else [("", value)]
            for key, tensor in items:
                if tensor.is_floating_point() and key not in buffers:
                    floats += tensor.numel()
                else:
                    meta += tensor.numel() * tensor.element_size()
        return Payload(floats, meta)

    def check(self, sizes: Mapping[str, int], who: str) -> None:
        """Raise MessageError unless every field has its kind, its shape and finite values."""
        bound = dict(sizes)
        for spec in self.specs():
            value = getattr(self, spec.name)
            if spec.dims is None:
                check_tree(value, spec.name, who)
            else:
                check_tensor(value, spec, bound, who)

    def map(self, change: typing.Callable[[Tensor], Tensor]) -> Self:
        """The same record with every tensor changed (say, moved to a device)."""
        return type(self).of({name: change(tensor) for name, tensor in self.arrays().items()})


class Nothing(Record):
    """An empty message."""


class Weights(Record):
    """Tensors of a model by name, or of the part of it that is shared. As message and as state."""

    weights: Tree


def _names(cls: type[Record]) -> str:
    return ", ".join(spec.name for spec in cls.specs()) or "nothing"
