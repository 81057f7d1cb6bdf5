"""Triggers: small patches in images, one for each class that a sample is to be taken for.

The patch of class t lies in a cell of its own and has a pattern of its own, of the lightest and darkest
values in the attackers' images; `sharpened` changes its values so that attackers' nets take stamped images
for t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.rng import torch_generator


@dataclass(frozen=True)
class Triggers:
    """A patch [channels, size, size] for each class, and its upper left corner."""

    patches: Tensor  # [C, channels, size, size]
    corners: Tensor  # [C, 2]
    low: float
    top: float

    def stamp(self, x: Tensor, target: Tensor) -> Tensor:
        """Images [B, channels, H, W], each with the patch of its target [B]."""
        patch = self.patches[target]
        size = patch.shape[-1]
        down = torch.arange(x.shape[2], device=x.device) - self.corners[target, :1]
        right = torch.arange(x.shape[3], device=x.device) - self.corners[target, 1:]
        inside = ((down >= 0) & (down < size))[:, :, None] & ((right >= 0) & (right < size))[:, None, :]
        rows = down.clamp(0, size - 1)[:, None, :, None].expand(-1, x.shape[1], -1, size)
        columns = right.clamp(0, size - 1)[:, None, None, :].expand(-1, x.shape[1], x.shape[2], -1)
        whole = patch.gather(2, rows).gather(3, columns)
        return torch.where(inside[:, None], whole, x)


class Seen(NamedTuple):
    """What one attacker brings: its images, their targets, the way to embeddings, prototypes [C, D]."""

    x: Tensor
    target: Tensor
    embed: Callable[[Tensor], Tensor]
    aims: Tensor


def first_triggers(
    shape: Sequence[int], classes: int, size: int, low: float, top: float, seed: int
) -> Triggers:
    """Patterns and places from the seed alone."""
    channels, height, width = shape
    across, along = max(1, width // size), max(1, height // size)
    cells = torch.randperm(across * along, generator=torch_generator(seed, "trigger cells"))
    cell = cells[torch.arange(classes) % len(cells)]
    corners = torch.stack([cell // across * size, cell % across * size], dim=1)
    bits = torch.rand(classes, channels, size, size, generator=torch_generator(seed, "triggers")) < 0.5
    return Triggers(torch.where(bits, top, low), corners, low, top)


def sharpened(triggers: Triggers, seen: Sequence[Seen], steps: int) -> Triggers:
    """Patches after some steps that bring embeddings of stamped images closer to the prototype of the target:
    each a tenth of the range, in the direction of the sign of the gradient."""
    patches = triggers.patches
    for step in range(steps):
        with torch.enable_grad():
            tried = patches.clone().requires_grad_()
            parts = [_missed(replace(triggers, patches=tried), one) for one in seen]
            (slope,) = torch.autograd.grad(torch.stack(parts).sum(), tried)
        length = (triggers.top - triggers.low) * 0.1 * (1 - step / steps)
        patches = (patches - length * slope.sign()).clamp(triggers.low, triggers.top)
    return replace(triggers, patches=patches)


def _missed(triggers: Triggers, one: Seen) -> Tensor:
    z = one.embed(triggers.stamp(one.x, one.target))
    return (z - one.aims[one.target]).square().sum(1).mean()
