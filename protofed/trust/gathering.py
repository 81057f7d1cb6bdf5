"""One averaged field of all uploads as padded rows, and the way back: values into every upload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..core.answer import Reply, cat
from ..core.averages import SAMPLES, Averaged
from ..core.errors import MessageError
from ..core.record import Record, Tree
from .rows import Rows


@dataclass(frozen=True)
class Gathered:
    """Rows, and where they came from: group and place [J] of each of the uploads' rows, in their order."""

    rows: Rows
    group: Tensor
    place: Tensor
    classes: Tensor  # [G]; of a tree empty


def field_rows(got: Sequence[Reply], averaged: Averaged, down: Record, classes: int) -> Gathered | None:
    """What the clients sent of a field; None if that is nothing."""
    if averaged.by:
        return _class_rows(got, averaged, down, classes)
    flat = [_flat(getattr(reply.up, averaged.field)) for reply in got]
    if not flat or not flat[0].numel():
        return None
    _check_alike(got, averaged.field, flat)
    x = torch.stack(flat)[None]
    n = [float(reply.n) if averaged.weight == SAMPLES else 1.0 for reply in got]
    w = x.new_tensor(n, dtype=torch.float64)[None]
    last = getattr(down, averaged.field, None)
    centre = _flat(last) if last is not None else x.new_zeros(0)
    known = centre.shape == x.shape[2:]
    centre = centre.to(x) if known else torch.zeros_like(x[0, 0])
    group, place = torch.zeros(len(got), dtype=torch.int64), torch.arange(len(got))
    there = torch.ones_like(w, dtype=torch.bool)
    rows = Rows(x, w, there, centre[None], torch.tensor([known]), by_class=False)
    return Gathered(rows, group, place, torch.zeros(0, dtype=torch.int64))


def _class_rows(got: Sequence[Reply], averaged: Averaged, down: Record, classes: int) -> Gathered | None:
    values, cls = cat(got, averaged.field, averaged.by)
    if not len(cls):
        return None
    weights = cat(got, averaged.weight)[0] if averaged.weight else torch.ones_like(cls)
    held, group, m = torch.unique(cls, return_inverse=True, return_counts=True)
    order = torch.argsort(group, stable=True)
    first = (m.cumsum(0) - m)[group[order]]
    place = torch.empty_like(group)
    place[order] = torch.arange(len(cls), device=cls.device) - first
    flat = values.flatten(1)
    size = (len(held), int(m.max()))
    x = flat.new_zeros(*size, flat.shape[1])
    x[group, place] = flat
    w = torch.zeros(size, dtype=torch.float64, device=cls.device)
    w[group, place] = weights.double()
    there = torch.zeros(size, dtype=torch.bool, device=cls.device)
    there[group, place] = True
    centre, known = _class_centres(down, averaged, held, flat, classes)
    return Gathered(Rows(x, w, there, centre, known), group, place, held)


def _class_centres(
    down: Record, averaged: Averaged, held: Tensor, like: Tensor, classes: int
) -> tuple[Tensor, Tensor]:
    """What was broadcast of these classes."""
    table = like.new_zeros(classes, like.shape[1])
    known = torch.zeros(classes, dtype=torch.bool, device=held.device)
    mean, cls = getattr(down, averaged.field, None), getattr(down, averaged.by, None)
    if isinstance(mean, Tensor) and isinstance(cls, Tensor) and len(cls):
        rows = mean.flatten(1)
        if rows.shape[1] == like.shape[1]:
            table[cls], known[cls] = rows.to(like), True
    return table[held], known[held]


def spread_values(got: Sequence[Reply], averaged: Averaged, found: Gathered, values: Tensor) -> list[Reply]:
    """Every upload with its group's value [G, D] in place of its own."""
    field = averaged.field
    if not averaged.by:
        return [_with(reply, field, _shaped(values[0], getattr(reply.up, field))) for reply in got]
    like = [getattr(reply.up, field) for reply in got]
    parts = torch.split(values[found.group], [len(one) for one in like])
    return [_with(reply, field, part.reshape(own.shape)) for reply, part, own in zip(got, parts, like)]


def put_values(reply: Reply, averaged: Averaged, found: Gathered, values: Tensor) -> Reply:
    """An upload with the values [G, D] in place of its own, of the classes that there are values for."""
    own = getattr(reply.up, averaged.field)
    if not averaged.by:
        return _with(reply, averaged.field, _shaped(values[0], own))
    where = found.classes[None, :] == getattr(reply.up, averaged.by)[:, None]
    told, at = where.any(1), where.long().argmax(1)
    shape = (-1,) + (1,) * (own.ndim - 1)
    given = values[at].reshape(own.shape).to(own)
    return _with(reply, averaged.field, torch.where(told.reshape(shape), given, own))


def capped_counts(got: list[Reply], averaged: Averaged, found: Gathered, w: Tensor) -> list[Reply]:
    """Every upload with its capped weights [G, M] as counts."""
    if not averaged.weight:
        return got
    each = w[found.group, found.place].long()
    if averaged.weight == SAMPLES:
        return [reply._replace(n=int(n)) for reply, n in zip(got, each.tolist())]
    parts = torch.split(each, [len(getattr(reply.up, averaged.weight)) for reply in got])
    return [_with(reply, averaged.weight, part) for reply, part in zip(got, parts)]


def _flat(value: Tensor | Tree) -> Tensor:
    """All floats in one row; of a tree in the order of the names."""
    if isinstance(value, Tensor):
        return value.flatten()
    parts = [value[name].flatten() for name in sorted(value) if value[name].is_floating_point()]
    return torch.cat(parts) if parts else torch.zeros(0)


def _shaped(row: Tensor, like: Tensor | Tree) -> Any:
    """Inverse of `_flat`; whole numbers stay as they were."""
    if isinstance(like, Tensor):
        return row.reshape(like.shape).to(like.dtype)
    names = [name for name in sorted(like) if like[name].is_floating_point()]
    parts = torch.split(row, [like[name].numel() for name in names])
    shaped = {name: part.reshape(like[name].shape).to(like[name]) for name, part in zip(names, parts)}
    return {**like, **shaped}


def _check_alike(got: Sequence[Reply], field: str, flat: Sequence[Tensor]) -> None:
    for reply, one in zip(got, flat):
        if one.shape != flat[0].shape:
            raise MessageError(
                f"robust average: {field} of client {reply.client} has {one.numel()} numbers, that of client "
                f"{got[0].client} {flat[0].numel()}: only equal models can be averaged"
            )


def _with(reply: Reply, field: str, value: Any) -> Reply:
    return reply._replace(up=replace(reply.up, **{field: value}))
