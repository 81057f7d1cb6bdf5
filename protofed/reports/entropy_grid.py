"""Segmentations and entropy maps of several runs as a grid of pictures (*ProtoMargin*, Figs. 6 and S4).

For each image three rows: predicted classes, entropy of the softmax, entropy of the features; a column for
each run, and a last one with the image and its mask. Dark is low entropy; a kind of entropy has one scale
in the whole grid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor

from ..analysis.segmentations import Images, Maps
from ..core.errors import RunError
from .paper import STYLE

COLOURS = 20  # of the palette; classes beyond take them again
ROWS = {"classes": "segmentation", "softmax": "softmax entropy", "features": "feature entropy"}
SIDE = 1.3  # inches of a picture
PALETTE = {"cmap": "tab20", "vmin": 0, "vmax": COLOURS - 1, "interpolation": "nearest"}


def draw_grid(images: Images, maps: Mapping[str, Maps], path: Path) -> Path:
    """Write the grid; `maps`: name of a run → what its model says of the images."""
    from matplotlib.figure import Figure

    matplotlib: Any = import_module("matplotlib")
    with matplotlib.rc_context(STYLE):
        across, down = len(maps) + 1, len(ROWS) * len(images.x)
        figure = Figure(figsize=(SIDE * across + 0.4, SIDE * down + 0.4), layout="constrained")
        grid = figure.subplots(down, across, squeeze=False)
        for column, (name, found) in enumerate(maps.items()):
            grid[0][column].set_title(name)
            _fill([grid[row][column] for row in range(down)], found, maps)
        _last(grid, images)
        for row in range(down):
            grid[row][0].set_ylabel(list(ROWS.values())[row % len(ROWS)])
        return save_pictures(figure, grid, path)


def save_pictures(figure: Any, grid: Any, path: Path) -> Path:
    """Write a grid of pictures, whose axes say nothing."""
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.grid(False)
    try:
        figure.savefig(path, dpi=200)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _fill(column: list[Any], found: Maps, every: Mapping[str, Maps]) -> None:
    for row, axes in enumerate(column):
        kind = list(ROWS)[row % len(ROWS)]
        picture = getattr(found, kind)[row // len(ROWS)].cpu()
        look = PALETTE if kind == "classes" else scale(kind, every)
        axes.imshow((picture % COLOURS if kind == "classes" else picture).numpy(), **look)


def scale(kind: str, every: Mapping[str, Maps]) -> dict[str, float]:
    """From the lowest to the highest entropy of a kind, over all runs and images."""
    values = [getattr(one, kind) for one in every.values()]
    return {"vmin": min(float(v.min()) for v in values), "vmax": max(float(v.max()) for v in values)}


def _last(grid: Any, images: Images) -> None:
    """The image, its mask, and nothing beside the third row."""
    shown, truth = picture(images.x), (images.y % COLOURS).double().where(images.y >= 0, math.nan)
    for number in range(len(images.x)):
        first, second, third = (grid[len(ROWS) * number + row][-1] for row in range(len(ROWS)))
        first.imshow(shown[number].cpu().numpy(), cmap="gray")
        second.imshow(truth[number].cpu().numpy(), **PALETTE)
        third.set_axis_off()
    grid[0][-1].set_title("image, mask")


def picture(x: Tensor) -> Tensor:
    """Normalised inputs back to [0, 1] per image: [B, H, W, 3], or [B, H, W] for other channel counts."""
    x = x.movedim(1, -1) if x.shape[1] == 3 else x.mean(1)
    low, high = (x.flatten(1).aminmax(dim=1)[i].reshape(-1, *[1] * (x.ndim - 1)) for i in (0, 1))
    return (x - low) / (high - low).clamp(min=1e-12)
