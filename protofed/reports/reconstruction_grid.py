"""Training images beside what an attacker found of them: a column for each class of a client.

The first row has the training image that the reconstruction comes nearest to, the second what is guessed
without any upload; then a row for each protection and start, of the network that tells most; other networks
without protection alone. Empty: nothing of the class was released.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..analysis.gradient_inversion import CHANGE
from ..analysis.inversion import OTHERS
from ..analysis.membership import OWN, OWN_LAYERS
from ..analysis.protections import NONE
from ..analysis.reconstructions import NO_UPLOAD, Found, Guess
from .entropy_grid import save_pictures
from .paper import STYLE

SIDE = 0.9  # inches of a picture
SHORT = {
    OTHERS: "others' mean",
    OWN: "own network",
    CHANGE: "change of weights",
    f"{CHANGE}{OWN_LAYERS}": "change of weights, own other layers",
    NO_UPLOAD: "guess",
}


def draw_reconstructions(found: Found, classes: Sequence[str], client: int, path: Path) -> Path:
    """Write the grid of one client; `classes`: names of all classes."""
    from matplotlib.figure import Figure

    matplotlib: Any = import_module("matplotlib")
    shown = _shown(found.guesses)
    low, high = float(found.nearest.min()), float(found.nearest.max())
    with matplotlib.rc_context(STYLE):
        down, across = 1 + len(shown), len(found.classes)
        size = (SIDE * across + 2.2, SIDE * down + 0.4)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(down, across, squeeze=False)
        for column, cls in enumerate(found.classes.tolist()):
            grid[0][column].set_title(classes[cls])
            pictures = [found.nearest[column], *(_of_class(one, cls) for one in shown)]
            for axes, picture in zip(grid[:, column], pictures):
                if picture is not None:
                    axes.imshow(_visible(picture, low, high), cmap="gray", vmin=0, vmax=1)
        for axes, name in zip(grid[:, 0], [f"client {client}: nearest", *map(_named, shown)]):
            axes.set_ylabel(name, rotation=0, ha="right", va="center")
        return save_pictures(figure, grid, path)


def _shown(guesses: Sequence[Guess]) -> list[Guess]:
    attacks = [one for one in guesses if one.protection != NO_UPLOAD]
    best = attacks[0].network if attacks else ""
    guessed = [one for one in guesses if one.protection == NO_UPLOAD and one.start == OTHERS]
    return [*guessed, *(one for one in attacks if one.network == best or one.protection == NONE)]


def _of_class(guess: Guess, cls: int) -> Tensor | None:
    rows = torch.nonzero(guess.cls == cls)[:, 0]
    return guess.x[rows[0]] if len(rows) else None


def _visible(picture: Tensor, low: float, high: float) -> Any:
    """[channels, H, W] on the scale of the training images: [H, W, 3], or [H, W] for other channel counts."""
    scaled = ((picture - low) / max(high - low, 1e-12)).clamp(0, 1)
    return (scaled.movedim(0, -1) if len(scaled) == 3 else scaled.mean(0)).cpu().numpy()


def _named(guess: Guess) -> str:
    parts = [SHORT.get(part, part) for part in (guess.protection, guess.network) if part]
    return "\n".join([", ".join(parts), f"from {SHORT.get(guess.start, guess.start)}"])
