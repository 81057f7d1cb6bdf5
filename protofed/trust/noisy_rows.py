"""From noisy sums and counts back to rows of classes that a method can read."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..core.algorithm import Leg
from .summands import Part

CERTAIN = 3.0  # deviations by which a noisy count must exceed 0


def class_rows(
    like: Any, part: Part, table: Tensor, leg: Leg, deviation: float, weight: float
) -> tuple[dict[str, Any], list[float]]:
    """Fields of the classes that are not withheld, and the noise in a mean beside its length: medians.

    `table` [C, D + 1] holds noisy sums beside noisy counts times `weight`; `like` is an upload."""
    sums, weighed = table[:, :-1], table[:, -1]
    cls = torch.nonzero(weighed > CERTAIN * deviation)[:, 0]
    count = weighed[cls] / weight
    means = sums[cls] / count[:, None]
    letters = {spec.name: spec.dims[0] for spec in leg.up.specs() if spec.dims}
    whole = count.round().clamp(min=1).to(torch.int64)
    found: dict[str, Any] = {}
    for name in (name for name, letter in letters.items() if letter == letters[part.by]):
        held = getattr(like, name)
        found[name] = held.new_zeros(len(cls), *held.shape[1:]) if held.is_floating_point() else whole
    widths = [math.prod(getattr(like, one.field).shape[1:]) for one in part.fields]
    for one, rows in zip(part.fields, torch.split(means, widths, 1)):
        found[one.field] = rows.reshape(found[one.field].shape).to(found[one.field].dtype)
    found[part.by] = cls
    error = deviation * math.sqrt(sums.shape[1]) / count
    lengths = torch.linalg.vector_norm(means, dim=1)
    return found, [float(v.median()) for v in (error, lengths)] if len(cls) else []


def without_rows(up: Any, leg: Leg) -> Any:
    """The same with no rows of classes: what has to be counted once stands in one reply alone."""
    specs = {spec.name: spec.dims for spec in leg.up.specs()}
    letters = {(specs[one.by] or ("",))[0] for one in leg.averages if one.by}
    kept = {
        name: getattr(up, name)[:0] if dims and dims[0] in letters else getattr(up, name)
        for name, dims in specs.items()
    }
    return leg.up(**kept)
