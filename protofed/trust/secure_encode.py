"""A client's upload as blocks of words: weighted, clipped, rounded. See secure_layout.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from torch import Tensor

from ..core.answer import Work
from ..core.averages import SAMPLES
from ..core.errors import MessageError
from ..core.record import Record, Tree
from .secure_crypto import WORDS
from .secure_layout import Layout, Part, Scale

Protect = Callable[[np.ndarray], np.ndarray]


class Encoded(NamedTuple):
    """Blocks of words, and how many values were beyond the bound."""

    blocks: list[np.ndarray]
    clipped: int


def has_something(layout: Layout, up: Record) -> bool:
    """Whether an upload has anything to add; averages always have."""
    return not layout.adds or any(
        tensor.numel() for name, tensor in up.arrays().items() if name not in layout.plain
    )


def encode(layout: Layout, up: Record, n: int, work: Work, protect: Protect | None = None) -> Encoded:
    """The vector of an upload of a client with `n` samples. `protect` changes all values at once, after they
    were weighted and clipped, before they are rounded: for a bound of whole uploads, or a share of noise."""
    arrays, scale = up.arrays(), layout.scale
    _check_shapes(layout, arrays)
    cls = _numbers(arrays[layout.by]).astype(np.int64) if layout.by else np.zeros(0, np.int64)
    pieces = [_whole_tensor(part, arrays, scale, n) for part in layout.open]
    tables, bounds = _row_tables(layout, arrays, cls)
    real, limit = (np.concatenate(some) for some in zip(*pieces, (tables.ravel(), bounds.ravel())))
    clipped = int((np.abs(real) > limit).sum())
    real = np.clip(real, -limit, limit)
    whole = np.rint((real if protect is None else protect(real)) / _steps(layout)).astype(np.int64)
    held = np.zeros(layout.classes, np.int64)
    held[cls] = 1
    split = len(whole) - tables.size
    first = np.concatenate([_figures(work, clipped, scale), held, whole[:split]])
    blocks = [first, *whole[split:].reshape(tables.shape)]
    return Encoded([block.view(np.uint64).astype(WORDS[scale.bits]) for block in blocks], clipped)


def _figures(work: Work, clipped: int, scale: Scale) -> np.ndarray:
    """As secure_layout.FIGURES names them."""
    loss = max(-scale.bound, min(scale.bound, work.loss)) if work.steps else 0.0
    counts = (int(work.steps > 0), work.steps, work.samples, clipped)
    return np.array([*(min(scale.most, one) for one in counts), round(loss / scale.step)], np.int64)


def _numbers(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def _limit(part: Part, scale: Scale, weight: np.ndarray) -> np.ndarray:
    return np.full(weight.shape, float(scale.most)) if part.whole else scale.bound * weight


def _whole_tensor(part: Part, arrays: Tree, scale: Scale, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of an array and their bounds; zeros where there is nothing to add."""
    values = _numbers(arrays[part.name]).ravel() if arrays[part.name].numel() else np.zeros(part.size)
    by_samples = part.weight == SAMPLES and not part.added and not part.whole
    limit = _limit(part, scale, np.full(part.size, n if part.added or by_samples else 1))
    return (values * n if by_samples else values), limit


def _row_tables(layout: Layout, arrays: Tree, cls: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values [C, words of a class] and their bounds, zeros for classes that are not there."""
    values, limits = np.zeros((layout.classes, 0)), np.zeros((layout.classes, 0))
    for part in layout.rows:
        rows = _numbers(arrays[part.name]).reshape(len(cls), part.size)
        weight = _numbers(arrays[part.weight]) if part.weight else np.ones(len(cls))
        weight = np.repeat(weight[:, None], part.size, axis=1)
        table, bound = np.zeros((layout.classes, part.size)), np.zeros((layout.classes, part.size))
        table[cls] = rows if part.whole or part.added else rows * weight
        bound[cls] = _limit(part, layout.scale, weight)
        values, limits = np.hstack([values, table]), np.hstack([limits, bound])
    return values, limits


def _steps(layout: Layout) -> np.ndarray:
    step = layout.scale.step
    first = [np.full(part.size, 1.0 if part.whole else step) for part in layout.open]
    row = np.concatenate([np.full(p.size, 1.0 if p.whole else step) for p in layout.rows] or [np.zeros(0)])
    return np.concatenate([*first, np.tile(row, layout.classes)])


def _check_shapes(layout: Layout, arrays: Tree) -> None:
    """Whether an upload is what was agreed; of what is only added, nothing may be there."""
    expected = {part.name for part in (*layout.open, *layout.rows)} | ({layout.by, *layout.plain} - {""})
    if arrays.keys() != expected:
        other = sorted(arrays.keys() ^ expected)[0]
        raise MessageError(f"secure sum: the upload and what was agreed differ in {other}")
    for part in (*layout.open, *layout.rows):
        tensor = arrays[part.name]
        shape = tuple(tensor.shape[1:] if part in layout.rows else tensor.shape)
        if shape != part.shape and not (part.added and not tensor.numel()):
            raise MessageError(
                f"secure sum: {part.name} has shape {list(shape)}; agreed was {list(part.shape)}"
            )
