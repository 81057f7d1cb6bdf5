"""Pictures of what a segmentation model says and how sure it is, as in Fig. 6 of ProtoMargin.

Michieli and Ozay, *Prototype Guided Federated Learning of Visual Feature Representations*: predicted
classes, entropy H_S of the softmax at each pixel, entropy H_E of the encoder's features enlarged to the
image. The formulas are in `formulas`. One row per image; dark is low entropy.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ..core.errors import ConfigError
from ..core.net import Net
from .formulas import entropy_features, entropy_softmax

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
COLOURS = 20  # of the palette; classes beyond take them again
Columns = dict[str, tuple[Tensor, dict[str, Any]]]


class Maps(NamedTuple):
    """All [B, H, W]."""

    classes: Tensor
    softmax: Tensor  # H_S, at most log C
    features: Tensor  # H_E, at most log D


@torch.no_grad()
def entropy_maps(net: Net, x: Tensor) -> Maps:
    """Predicted classes, H_S and H_E of images [B, channels, H, W] under a net in eval mode."""
    z, logits = net(x)
    if logits.ndim != 4:
        raise ConfigError(f"entropy maps need a segmentation model, got logits of shape {list(logits.shape)}")
    size = (logits.shape[2], logits.shape[3])
    return Maps(logits.argmax(1), entropy_softmax(logits), entropy_features(z, size))


def draw_maps(net: Net, x: Tensor, path: str | Path, y: Tensor | None = None) -> Path:
    """Write image, truth (if `y` [B, H, W] is given), prediction, H_S and H_E to a .png or .svg file."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"entropy maps: {path.name} must end in {' or '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise ConfigError(f"entropy maps: {path.parent} is not a folder")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError("entropy maps: need matplotlib: pip install 'protofed[report]'") from error
    columns = _columns(x, y, entropy_maps(net, x))
    figure = Figure(figsize=(2 * len(columns), 2 * len(x) + 0.4), layout="constrained")
    _fill(figure, columns, len(x))
    figure.savefig(path, dpi=100)
    return path


def _columns(x: Tensor, y: Tensor | None, maps: Maps) -> Columns:
    """Title → (pictures [B, …], how to show them). All images of a column have one scale."""
    palette = {"cmap": "tab20", "vmin": 0, "vmax": COLOURS - 1, "interpolation": "nearest"}
    shown: Columns = {"image": (_picture(x), {"cmap": "gray"})}
    if y is not None:
        shown["truth"] = ((y % COLOURS).double().where(y >= 0, math.nan), palette)
    shown["prediction"] = (maps.classes % COLOURS, palette)
    for title, entropy in (("softmax entropy", maps.softmax), ("feature entropy", maps.features)):
        shown[title] = (entropy, {"vmin": float(entropy.min()), "vmax": float(entropy.max())})
    return shown


def _picture(x: Tensor) -> Tensor:
    """Normalised inputs back to [0, 1] per image: [B, H, W, 3], or [B, H, W] for other channel counts."""
    x = x.movedim(1, -1) if x.shape[1] == 3 else x.mean(1)
    low, high = (x.flatten(1).aminmax(dim=1)[i].reshape(-1, *[1] * (x.ndim - 1)) for i in (0, 1))
    return (x - low) / (high - low).clamp(min=1e-12)


def _fill(figure: Figure, columns: Columns, images: int) -> None:
    grid = figure.subplots(images, len(columns), squeeze=False)
    for j, (title, (pictures, style)) in enumerate(columns.items()):
        for i in range(images):
            grid[i][j].imshow(pictures[i].cpu().numpy(), **style)
            grid[i][j].set_axis_off()
        grid[0][j].set_title(title, fontsize=9)
