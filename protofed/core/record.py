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
import math
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, dataclass_transform

import torch
from torch import Tensor

from .errors import MessageError

Tree: TypeAlias = dict[str, Tensor]
BYTES_PER_FLOAT = 4  # papers count float32, whatever dtype the simulation computes in


class Payload(NamedTuple):
    """What one message carries: floats (what papers count) and all else in bytes."""

    floats: int = 0
    meta_bytes: int = 0

    @property
    def bytes(self) -> int:
        return BYTES_PER_FLOAT * self.floats

    def __add__(self, other: tuple[Any, ...]) -> Payload:
        return Payload(self.floats + other[0], self.meta_bytes + other[1])


class Spec(NamedTuple):
    """Declaration of one field; `dims` is None for a Tree."""

    name: str
    floating: bool
    dims: tuple[str, ...] | None


@dataclass_transform(frozen_default=True, eq_default=False)
class Record:
    """Base of messages and server states. Subclasses become frozen dataclasses."""

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
            cls._specs = tuple(_parse(cls.__name__, f.name, hints[f.name]) for f in fields)
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
                if not isinstance(value, dict):
                    raise MessageError(
                        f"{who}: {spec.name} must be a dict of tensors, got {type(value).__name__}"
                    )
                for key, tensor in value.items():
                    if not isinstance(tensor, Tensor):
                        got = type(tensor).__name__
                        raise MessageError(f"{who}: {spec.name}/{key} must be a tensor, got {got}")
                    _check_finite(tensor, who, f"{spec.name}/{key}")
            else:
                _check_tensor(value, spec, bound, who)

    def map(self, change: typing.Callable[[Tensor], Tensor]) -> Self:
        """The same record with every tensor changed (say, moved to a device)."""
        return type(self).of({name: change(tensor) for name, tensor in self.arrays().items()})


class Nothing(Record):
    """An empty message."""


class Reply(NamedTuple):
    """One accepted upload: who sent it, the number of training samples there, and what."""

    client: int
    n: int
    up: Any  # the leg's `up` record


class Replies:
    """The accepted uploads of one leg, to be read once.

    Iterate where the order does not matter: replies then stream, and memory does not grow with their
    number. `all()` gives a list sorted by client, for steps whose result depends on the order.
    """

    def __init__(self, replies: Iterator[Reply]):
        self._replies = replies
        self._used = False

    def __iter__(self) -> Iterator[Reply]:
        if self._used:
            raise RuntimeError("replies can be read once: keep what you need")
        self._used = True
        return self._replies

    def all(self) -> list[Reply]:
        return sorted(self, key=lambda reply: reply.client)


def blocks(replies: Replies | list[Reply], size: int = 64) -> Iterator[list[Reply]]:
    """Replies in lists of at most `size`, so that sums run over joined rows."""
    block: list[Reply] = []
    for reply in replies:
        block.append(reply)
        if len(block) == size:
            yield block
            block = []
    if block:
        yield block


def cat(replies: list[Reply], *fields: str) -> list[Tensor]:
    """The named fields of all replies, rows joined."""
    return [torch.cat([getattr(reply.up, field) for reply in replies]) for field in fields]


def _parse(owner: str, name: str, hint: Any) -> Spec:
    if typing.get_origin(hint) is dict:
        return Spec(name, True, None)
    if not hasattr(hint, "dim_str"):
        raise TypeError(f"{owner}.{name}: declare it as Float[Tensor, ...], Int[Tensor, ...] or Tree")
    floating = any(dtype.startswith("float") for dtype in hint.dtypes)
    return Spec(name, floating, tuple(hint.dim_str.split()))


def _check_tensor(value: Any, spec: Spec, bound: dict[str, int], who: str) -> None:
    assert spec.dims is not None
    if not isinstance(value, Tensor):
        got = type(value).__name__
        raise MessageError(f"{who}: {spec.name} must be a tensor {_declared(spec, bound)}, got {got}")
    if value.dtype.is_floating_point != spec.floating:
        kind = "floats" if spec.floating else "integers"
        raise MessageError(f"{who}: {spec.name} must hold {kind}, got {value.dtype}")
    shape = value.shape
    before = dict(bound)
    fits = len(shape) == len(spec.dims)
    for letter, size in zip(spec.dims, shape):
        fits = fits and bound.setdefault(letter, size) == size
    if not fits:
        wanted = _declared(spec, before)
        raise MessageError(f"{who}: {spec.name} has shape {list(shape)}; declared {wanted}")
    if spec.floating:
        _check_finite(value, who, spec.name)


def _declared(spec: Spec, bound: Mapping[str, int]) -> str:
    return f"[{', '.join(f'{d}={bound[d]}' if d in bound else d for d in spec.dims or ())}]"


def _check_finite(tensor: Tensor, who: str, name: str) -> None:
    if not tensor.is_floating_point() or math.isfinite(tensor.sum().item()):
        return  # NaN and infinity show in the sum: one pass, and no mask in memory
    bad = int((~torch.isfinite(tensor)).sum())
    if bad:  # else the sum itself overflowed
        raise MessageError(
            f"{who}: {name}: {bad} of {tensor.numel()} values are not finite (NaN or infinite)"
        )


def _names(cls: type[Record]) -> str:
    return ", ".join(spec.name for spec in cls.specs()) or "nothing"
