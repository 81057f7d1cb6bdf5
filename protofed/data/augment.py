"""Random crops, flips and rotations of whole batches, drawn from the generator that is given.

A spec joins parts by "+": `crop4` (4 pixels of padding, then a crop of the old size), `flip`
(horizontal, half of the images), `rotate30` (uniform in ±30°, nearest pixel). Each image has its own draw.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import ConfigError

_PART = re.compile(r"(crop|rotate)(\d+)|(flip)")


class Draws(NamedTuple):
    """Random numbers for B images."""

    dy: Tensor  # [B] first row of the crop in the padded image
    dx: Tensor  # [B]
    flip: Tensor  # [B] bool
    angle: Tensor  # [B] radians


@dataclass(frozen=True, eq=False)
class Augmentation:
    """Call it with images [B, channels, H, W] and a generator. Made once for all batches."""

    crop: int = 0  # pixels of padding
    flip: bool = False
    rotate: int = 0  # degrees
    fill: Tensor | float = (
        0.0  # scalar or [channels]: put where nothing was; for normalised images `Loader.black`
    )

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return self.apply(x, self.draw(len(x), generator))

    def draw(self, size: int, generator: torch.Generator) -> Draws:
        """Random numbers for `size` images; only the parts that are asked for use the generator."""
        device = generator.device
        zero = torch.zeros(size, dtype=torch.long, device=device)
        offsets = zero.expand(2, size)
        flip, angle = zero.bool(), zero.float()
        if self.crop:
            offsets = torch.randint(0, 2 * self.crop + 1, (2, size), generator=generator, device=device)
        if self.flip:
            flip = torch.rand(size, generator=generator, device=device) < 0.5
        if self.rotate:
            angle = (torch.rand(size, generator=generator, device=device) * 2 - 1) * math.radians(self.rotate)
        return Draws(offsets[0], offsets[1], flip, angle)

    def apply(self, x: Tensor, draws: Draws) -> Tensor:
        """Transform images by these draws."""
        fill = torch.as_tensor(self.fill, dtype=x.dtype, device=x.device).reshape(-1, 1, 1)
        draws = Draws(*(t.to(x.device) for t in draws))
        if self.crop or self.flip:
            x = _crop_and_flip(x, self.crop, draws, fill)
        if self.rotate:
            x = _rotate(x, draws.angle, fill)
        return x


def read_augmentation(spec: str, fill: Tensor | float = 0.0) -> Augmentation:
    """Read "crop4+flip+rotate30"; empty means nothing."""
    parts: dict[str, Any] = {}
    for part in filter(None, spec.split("+")):
        match = _PART.fullmatch(part)
        if not match:
            raise ConfigError(
                f"augment {spec!r}: unknown part {part!r}; join crop<pixels>, flip, rotate<degrees> by +"
            )
        kind, amount, flip = match.groups()
        parts |= {"flip": True} if flip else {kind: int(amount)}
    return Augmentation(**parts, fill=fill)


def _crop_and_flip(x: Tensor, pad: int, draws: Draws, fill: Tensor) -> Tensor:
    height, width = x.shape[2:]
    columns = torch.arange(width, device=x.device).expand(len(x), width)
    columns = torch.where(draws.flip[:, None], width - 1 - columns, columns) + draws.dx[:, None]
    rows = torch.arange(height, device=x.device) + draws.dy[:, None]
    if pad:
        framed = fill.expand(len(x), x.shape[1], height + 2 * pad, width + 2 * pad).clone()
        framed[:, :, pad : pad + height, pad : pad + width] = x
        x = framed
    pixel = rows[:, :, None] * x.shape[3] + columns[:, None, :]  # [B, H, W] into the flat padded image
    pixel = pixel.view(len(x), 1, height * width).expand(-1, x.shape[1], -1)
    return x.flatten(2).gather(2, pixel).view(len(x), x.shape[1], height, width)


def _rotate(x: Tensor, angle: Tensor, fill: Tensor) -> Tensor:
    height, width = x.shape[2:]
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    # grid_sample measures in half-sizes, so turning an oblong image needs the ratio of its sides
    theta = torch.stack([cos, -sin * height / width, zero, sin * width / height, cos, zero], dim=1)
    grid = F.affine_grid(theta.view(-1, 2, 3).to(x.dtype), list(x.shape), align_corners=False)
    covered = torch.ones_like(x[:, :1])
    turned, inside = (
        F.grid_sample(image, grid, mode="nearest", padding_mode="zeros", align_corners=False)
        for image in (x, covered)
    )
    return torch.where(inside > 0, turned, fill)
