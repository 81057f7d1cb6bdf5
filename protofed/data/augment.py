"""Random crops, flips and rotations of whole batches, drawn from the generator that is given.

A spec joins parts by "+": `crop4` (4 pixels of padding, then a crop of the old size), `flip`
(horizontal, half of the images), `rotate30` (uniform in ±30°, nearest pixel). Each image has its own
draw. Draws and application are apart, so that several clients' batches may be drawn each from its
own generator and transformed together.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.errors import ConfigError

_PART = re.compile(r"(crop|rotate)(\d+)|(flip)")


class Recipe(NamedTuple):
    """A parsed spec."""

    crop: int = 0  # pixels of padding
    flip: bool = False
    rotate: int = 0  # degrees


class Draws(NamedTuple):
    """Random numbers for B images."""

    dy: Tensor  # [B] first row of the crop in the padded image
    dx: Tensor  # [B]
    flip: Tensor  # [B] bool
    angle: Tensor  # [B] radians


@lru_cache(maxsize=64)
def parse(spec: str) -> Recipe:
    """Read "crop4+flip+rotate30"; empty means nothing."""
    recipe = Recipe()
    for part in filter(None, spec.split("+")):
        match = _PART.fullmatch(part)
        if not match:
            raise ConfigError(
                f"augment {spec!r}: unknown part {part!r}; join crop<pixels>, flip, rotate<degrees> by +"
            )
        kind, amount, flip = match.groups()
        recipe = recipe._replace(**({"flip": True} if flip else {kind: int(amount)}))
    return recipe


def draw(spec: str, size: int, generator: torch.Generator) -> Draws:
    """Random numbers for `size` images; only the parts of the spec use the generator."""
    recipe, device = parse(spec), generator.device
    zero = torch.zeros(size, dtype=torch.long, device=device)
    offsets = zero.expand(2, size)
    flip, angle = zero.bool(), zero.float()
    if recipe.crop:
        offsets = torch.randint(0, 2 * recipe.crop + 1, (2, size), generator=generator, device=device)
    if recipe.flip:
        flip = torch.rand(size, generator=generator, device=device) < 0.5
    if recipe.rotate:
        angle = (torch.rand(size, generator=generator, device=device) * 2 - 1) * math.radians(recipe.rotate)
    return Draws(offsets[0], offsets[1], flip, angle)


def apply(x: Tensor, spec: str, draws: Draws, fill: Tensor | float = 0.0) -> Tensor:
    """Transform images [B, channels, H, W]; `fill` (scalar or [channels]) is put where nothing was."""
    recipe = parse(spec)
    fill = torch.as_tensor(fill, dtype=x.dtype, device=x.device).reshape(-1, 1, 1)
    draws = Draws(*(t.to(x.device) for t in draws))
    if recipe.crop or recipe.flip:
        x = _crop_and_flip(x, recipe.crop, draws, fill)
    if recipe.rotate:
        x = _rotate(x, draws.angle, fill)
    return x


def augment(x: Tensor, spec: str, generator: torch.Generator, fill: Tensor | float = 0.0) -> Tensor:
    """Draw and apply in one step. For normalised images pass `Loader.black` as fill."""
    if not spec:
        return x
    return apply(x, spec, draw(spec, len(x), generator), fill)


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
