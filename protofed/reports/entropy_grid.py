"""Segmentations and entropy maps of several runs as a grid of pictures (*ProtoMargin*, Figs. 6 and S4).

For each image three rows: predicted classes, entropy of the softmax, entropy of the features; a column for
each run, and a last one with the image and its mask. Dark is low entropy; a kind of entropy has one scale
in the whole grid, which its bar below tells.
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
ENTROPIES = ("softmax", "features")
SIDE = 1.3  # inches of a picture
BAR = 0.6  # inches of a bar of colours with its numbers and its name
PALETTE = {"cmap": "tab20", "vmin": 0, "vmax": COLOURS - 1, "interpolation": "nearest"}


def draw_grid(images: Images, maps: Mapping[str, Maps], path: Path) -> Path:
    """Write the grid; `maps`: name of a run → what its model says of the images."""
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    matplotlib: Any = import_module("matplotlib")
    looks = {kind: {"norm": Normalize(*scale(kind, maps))} for kind in ENTROPIES}
    with matplotlib.rc_context(STYLE):
        across, down = len(maps) + 1, len(ROWS) * len(images.x)
        width, height = SIDE * across + 0.4, SIDE * down + 0.4
        figure: Any = Figure(figsize=(width, height + BAR), layout="constrained")
        above, below = figure.subfigures(2, 1, height_ratios=[height, BAR])
        grid = above.subplots(down, across, squeeze=False)
        for column, (name, found) in enumerate(maps.items()):
            grid[0][column].set_title(name)
            _fill([grid[row][column] for row in range(down)], found, {"classes": PALETTE, **looks})
        _last(grid, images)
        for row in range(down):
            grid[row][0].set_ylabel(list(ROWS.values())[row % len(ROWS)])
        _bars(below, grid)
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


def _fill(column: list[Any], found: Maps, looks: Mapping[str, Any]) -> None:
    for row, axes in enumerate(column):
        kind = list(ROWS)[row % len(ROWS)]
        picture = getattr(found, kind)[row // len(ROWS)].cpu()
        axes.imshow((picture % COLOURS if kind == "classes" else picture).numpy(), **looks[kind])


def scale(kind: str, every: Mapping[str, Maps]) -> tuple[float, float]:
    """The lowest and the highest entropy of a kind, over all runs and images."""
    values = [getattr(one, kind) for one in every.values()]
    return min(float(v.min()) for v in values), max(float(v.max()) for v in values)


def _bars(below: Any, grid: Any) -> None:
    """What the colours of each kind of entropy mean, side by side."""
    apart = {"wspace": 0.1}  # the numbers at their ends
    for kind, axes in zip(ENTROPIES, below.subplots(1, len(ENTROPIES), gridspec_kw=apart)):
        drawn = grid[list(ROWS).index(kind)][0].images[0]
        places, numbers = marks(*drawn.get_clim())  # before the bar widens a scale of one number
        bar = below.colorbar(drawn, cax=axes, orientation="horizontal", label=f"{ROWS[kind]} (nats)")
        bar.set_ticks(places, labels=numbers)


def marks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Both ends of a scale and its middle, with digits that tell them apart, four at most; or the one number.

    >>> marks(0.0, 1.1)[1], marks(0.69, 0.693)[1]
    (['0.00', '0.55', '1.10'], ['0.6900', '0.6915', '0.6930'])
    """
    if not low < high:  # also where models have diverged
        return [low], [f"{low:.4f}"]
    places = [low, (low + high) / 2, high]
    digits = min(max(2, 1 - math.floor(math.log10(high - low))), 4)
    return places, [f"{round(place, digits) + 0.0:.{digits}f}" for place in places]  # -0.0 as 0


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
