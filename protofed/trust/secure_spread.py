"""From the sums back to uploads: every client in the sum gets the same values, and the method goes on.

An average of equal values is that value, whatever their weights (core/averages.py), so `aggregate` runs as
it is. Who held which class is not known: its rows are given to as many clients as held it, and its count
is divided among them, so that counts add up to what they are. What the server adds is divided among all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core.answer import Reply, Work
from ..core.averages import SAMPLES
from ..core.errors import MessageError
from ..core.record import Tree
from ..core.task import Task
from .secure_layout import FIGURES, Layout, Part


class Party(NamedTuple):
    """A client that is in the sum: its samples, and what it sent as it is."""

    client: int
    n: int
    plain: Tree


class Summed(NamedTuple):
    """The first block of a sum, read."""

    figures: dict[str, int]
    loss: float  # sum over the clients that made steps
    holders: np.ndarray  # [C]
    values: dict[str, np.ndarray]  # sums of what is not by class


def read_first(layout: Layout, block: np.ndarray, parties: Sequence[Party]) -> Summed:
    """What the first block says; MessageError if clients that keep to the protocol cannot have it."""
    known = dict(zip(FIGURES, block[: len(FIGURES)].tolist()))
    loss = known.pop("loss") * layout.scale.step
    start, end = len(FIGURES), len(FIGURES) + layout.classes
    holders, values = block[start:end], {}
    for part in layout.open:
        start, end = end, end + part.size
        values[part.name] = _real(layout, part, block[start:end])
    odd = [name for name, value in known.items() if value < 0] or (known["trained"] > len(parties))
    if odd or (len(holders) and (holders.min() < 0 or holders.max() > len(parties))):
        raise MessageError("secure sum: counts that cannot be: a client did not keep to the protocol")
    return Summed(known, loss, holders, values)


def released(layout: Layout, summed: Summed, least: int) -> list[int]:
    """Classes that enough clients hold."""
    return [c for c in range(layout.classes) if summed.holders[c] >= least]


def spread(
    layout: Layout, summed: Summed, rows: Mapping[int, np.ndarray], parties: Sequence[Party], task: Task
) -> list[Reply]:
    """A reply of each party; `rows` holds the blocks of the classes that were released."""
    whole = {part.name: _whole(layout, part, summed.values[part.name], parties) for part in layout.open}
    uploads: list[Tree] = [dict(whole) for _ in parties]
    if layout.by:
        for upload, more in zip(uploads, _class_rows(layout, summed, rows, len(parties))):
            upload.update(more)
    replies = []
    for party, arrays, work in zip(parties, uploads, _works(summed, len(parties))):
        placed = {name: _placed(tensor, task) for name, tensor in arrays.items()}
        replies.append(Reply(party.client, party.n, layout.kind.of({**placed, **party.plain}), work=work))
    return replies


def _placed(tensor: Tensor, task: Task) -> Tensor:
    return tensor.to(task.device, task.dtype if tensor.is_floating_point() else torch.int64)


def _real(layout: Layout, part: Part, words: np.ndarray) -> np.ndarray:
    return words * (1.0 if part.whole else layout.scale.step)


def _whole(layout: Layout, part: Part, total: np.ndarray, parties: Sequence[Party]) -> Tensor:
    """The mean of all, or the equal part of each of what is added."""
    by_samples = part.weight == SAMPLES and not part.added and not part.whole
    weight = sum(party.n for party in parties) if by_samples else len(parties)
    mean = total / weight
    if not part.added:
        _check_bound(layout, part, mean)
    found = torch.from_numpy(np.rint(mean).astype(np.int64) if part.whole else mean)
    return found.reshape(part.shape)


def _check_bound(layout: Layout, part: Part, mean: np.ndarray) -> None:
    bound = layout.scale.bound + layout.scale.step
    if not part.whole and mean.size and float(np.abs(mean).max()) > bound:
        raise MessageError(
            f"secure sum: {part.name} has a mean beyond the bound: a client did not keep to the protocol"
        )


def _class_rows(layout: Layout, summed: Summed, rows: Mapping[int, np.ndarray], parties: int) -> list[Tree]:
    """Rows by party: of each released class as many as it has holders; what is added, all parties alike."""
    classes = sorted(rows)
    counts, tables = _tables(layout, rows, classes)
    holders = np.array([parties if layout.adds else int(summed.holders[c]) for c in classes], np.int64)
    for part in layout.rows:
        weight = counts.get(part.weight, holders)
        if part.whole:
            continue
        if len(classes) and not part.added and (weight < holders).any():
            raise MessageError(
                "secure sum: fewer samples than holders: a client did not keep to the protocol"
            )
        tables[part.name] = tables[part.name] / np.maximum(1, holders if part.added else weight)[:, None]
        if not part.added:
            _check_bound(layout, part, tables[part.name])
    found = []
    for party in range(parties):
        mine = np.flatnonzero(holders > party)
        arrays: Tree = {layout.by: torch.tensor([classes[i] for i in mine], dtype=torch.int64)}
        for part in layout.rows:
            if part.whole:
                share = counts[part.name][mine] // holders[mine] + (
                    counts[part.name][mine] % holders[mine] > party
                )
                arrays[part.name] = torch.from_numpy(share.astype(np.int64))
            else:
                arrays[part.name] = torch.from_numpy(tables[part.name][mine].reshape(len(mine), *part.shape))
        found.append(arrays)
    return found


def _tables(
    layout: Layout, rows: Mapping[int, np.ndarray], classes: Sequence[int]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Counts [classes] and sums [classes, words] by name of their field."""
    words = sum(part.size for part in layout.rows)
    block = np.stack([rows[c] for c in classes]) if classes else np.zeros((0, words), np.int64)
    counts, tables, start = {}, {}, 0
    for part in layout.rows:
        piece = block[:, start : start + part.size]
        start += part.size
        if part.whole:
            counts[part.name] = piece[:, 0]
        else:
            tables[part.name] = _real(layout, part, piece)
    return counts, tables


def _works(summed: Summed, parties: int) -> list[Work]:
    """Equal parts of the steps and samples, with the mean loss, for as many as made steps."""
    trained = summed.figures["trained"]
    loss = summed.loss / trained if trained else float("nan")
    steps, samples = (_divided(summed.figures[name], trained) for name in ("steps", "samples"))
    works = [Work(*one, loss) for one in zip(steps, samples)]
    return works + [Work()] * (parties - trained)


def _divided(total: int, parts: int) -> list[int]:
    return [total // parts + (total % parts > i) for i in range(parts)] if parts else []
