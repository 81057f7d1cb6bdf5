"""Declared fields of records: what a declaration says, and whether tensors keep to it."""

from __future__ import annotations

import math
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .errors import MessageError

_COMPLEX = (torch.complex32, torch.complex64, torch.complex128)
LARGEST = 1e12  # norm of a tensor in a message: training that works stays far below, float32 ends at 3e38


class Spec(NamedTuple):
    """Declaration of one field; `dims` is None for a Tree."""

    name: str
    floating: bool
    dims: tuple[str, ...] | None


def parse(owner: str, name: str, hint: Any) -> Spec:
    """The declaration behind a type hint."""
    if typing.get_origin(hint) is dict:
        return Spec(name, True, None)
    if not hasattr(hint, "dim_str"):
        raise TypeError(f"{owner}.{name}: declare it as Float[Tensor, ...], Int[Tensor, ...] or Tree")
    floating = any(dtype.startswith("float") for dtype in hint.dtypes)
    return Spec(name, floating, tuple(hint.dim_str.split()))


def check_tree(value: Any, name: str, who: str) -> None:
    """Raise MessageError unless `value` is a dict of finite tensors."""
    if not isinstance(value, dict):
        raise MessageError(f"{who}: {name} must be a dict of tensors, got {type(value).__name__}")
    for key, tensor in value.items():
        if not isinstance(tensor, Tensor):
            got = type(tensor).__name__
            raise MessageError(f"{who}: {name}/{key} must be a tensor, got {got}")
        check_finite(tensor, who, f"{name}/{key}")


def check_tensor(value: Any, spec: Spec, bound: dict[str, int], who: str) -> None:
    """Raise MessageError unless the tensor fits; free letters are bound to the sizes they take."""
    assert spec.dims is not None
    if not isinstance(value, Tensor):
        got = type(value).__name__
        raise MessageError(f"{who}: {spec.name} must be a tensor {_declared(spec, bound)}, got {got}")
    if value.dtype.is_floating_point != spec.floating or value.dtype in (torch.bool, *_COMPLEX):
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
        check_finite(value, who, spec.name)


def _declared(spec: Spec, bound: Mapping[str, int]) -> str:
    return f"[{', '.join(f'{d}={bound[d]}' if d in bound else d for d in spec.dims or ())}]"


def check_finite(tensor: Tensor, who: str, name: str) -> None:
    """Raise MessageError if a value is NaN or infinite, or the tensor so long that sums would drown in it."""
    if not tensor.is_floating_point() or _within_bounds(tensor):
        return
    bad = int((~torch.isfinite(tensor)).sum())
    if bad:
        raise MessageError(
            f"{who}: {name}: {bad} of {tensor.numel()} values are not finite (NaN or infinite)"
        )
    norm = float(torch.linalg.vector_norm(tensor, dtype=torch.float64))  # float32 overflows from 1e19 on
    if norm > LARGEST:
        raise MessageError(f"{who}: {name} has norm {norm:.3g}; no sum can hold it (at most {LARGEST:.0e})")


def _within_bounds(tensor: Tensor) -> bool:
    """Whether it is surely finite and not too long: NaN and infinity show in the norm, which takes one pass
    and no mask in memory."""
    return float(torch.linalg.vector_norm(tensor)) <= LARGEST


class Joined(NamedTuple):
    """Many records as one: each field with the rows of all, and the rows of each record by axis letter."""

    fields: dict[str, Tensor]
    rows: dict[str, list[int]]


def join(specs: Sequence[Spec], records: Sequence[Any], sizes: Mapping[str, int]) -> Joined | None:
    """Many records as one, if all keep to the declaration and are finite.

    None if one of them may not: then each must be checked alone. One test of the joined rows is several
    times cheaper than a test of each record; what it cannot judge surely (trees, scalars, empty fields,
    free letters that are not the first) it leaves to the slow way.
    """
    whole = Joined({}, {})
    for spec in specs:
        parts = [getattr(record, spec.name) for record in records]
        if spec.dims is None:
            if any(part != {} for part in parts):
                return None
            continue
        try:
            kinds, joined = {part.dtype for part in parts}, torch.cat(parts)
        except (AttributeError, TypeError, RuntimeError):  # no tensor, or another shape
            return None
        if len(kinds) > 1 or not _fits(joined, spec, sizes):
            return None
        width = math.prod(joined.shape[1:])
        rows = [part.numel() // width for part in parts]  # `len` of a tensor takes ten times as long
        first = spec.dims[0]
        wanted = [sizes[first]] * len(parts) if first in sizes else rows
        if rows != whole.rows.setdefault(first, wanted) or 0 in rows:
            return None
        whole.fields[spec.name] = joined
    return whole if whole.fields else None  # without rows their number would be lost


def still_sound(specs: Sequence[Spec], joined: Joined, sizes: Mapping[str, int]) -> bool:
    """Whether joined records that came from elsewhere keep to the declaration."""
    tensors = [spec for spec in specs if spec.dims is not None]
    return joined.fields.keys() == {spec.name for spec in tensors} and all(
        _fits(joined.fields[spec.name], spec, sizes)
        and joined.fields[spec.name].shape[0] == sum(joined.rows.get(spec.dims[0], ()))
        for spec in tensors
        if spec.dims
    )


def cut(specs: Sequence[Spec], joined: Joined) -> Iterator[dict[str, Any]]:
    """Inverse of `join`: the fields of each record."""
    trees: dict[str, Any] = {spec.name: {} for spec in specs if spec.dims is None}
    tensors = [(spec.name, spec.dims[0]) for spec in specs if spec.dims]
    parts = [torch.split(joined.fields[name], joined.rows[letter]) for name, letter in tensors]
    for row in zip(*parts):
        yield {**trees, **{name: tensor for (name, _), tensor in zip(tensors, row)}}


def _fits(joined: Tensor, spec: Spec, sizes: Mapping[str, int]) -> bool:
    """Kind, axes after the first, and finite values of joined rows."""
    if not spec.dims or any(letter not in sizes for letter in spec.dims[1:]) or not joined.numel():
        return False
    if joined.shape[1:] != tuple(sizes[letter] for letter in spec.dims[1:]):
        return False
    if joined.dtype.is_floating_point != spec.floating:
        return False
    return not spec.floating or _within_bounds(joined)
