"""A feature map φ that all clients have and nobody trains: sums of its values can be added across clients.

    filters     images [ch, H, W]: K Gaussian filters, zero mean, unit norm, ReLU, averages over a 4×4 grid;
                sequences [ch, L]: the same in one dimension, averages over 8 stretches
    edges       images: filters of the same kind over e, magnitudes instead of ReLU, averages over the grid;
                g the mean of the colours, d = g − mean of g over a 9×9 window, v² = mean of d² over it,
                e = d / max(v, mean of v over the image)
    relu        inputs of any shape as vectors: max(0, w·x + b), w and b Gaussian
    model:SPEC  the embedding of a frozen model, built as SPEC says with the run's seed, or pretrained
    auto        relu for vectors, filters for sequences; images: a quarter filters, three quarters edges
    A+B         several of them, side by side

Edges stay when an image's colours are exchanged, its brightness or contrast changes, or light and dark change
places: sums of them mean the same at clients whose images differ in that.

Everything random comes from the run's seed, so φ itself is never sent. A map owns no parameters and no saved
buffers: it is no part of any client's model.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..core.errors import ConfigError
from ..core.rng import seeded, torch_generator
from ..core.task import Task

GRID, STRETCHES = 4, 8  # into how many parts each side of an image, and a sequence, is averaged
SMALL_SIDE, SHORT = 16, 32  # below: shorter filters
WINDOW, FLAT = 9, 1e-4  # side of the window of edges; contrasts below are none
COLOURS = 4  # one of so many filters of an image sees its colours; the others see edges
KINDS = ("auto", "filters", "edges", "relu", "model:SPEC")


class Filters(nn.Module):
    """Random filters over images or sequences, ReLU, averages over a grid."""

    def __init__(self, shape: tuple[int, ...], count: int, generator: torch.Generator):
        super().__init__()
        channels, *sides = shape
        short = min(sides) < (SMALL_SIDE if len(sides) == 2 else SHORT)
        length = (3 if short else 5) if len(sides) == 2 else (5 if short else 9)
        drawn = torch.randn(count, channels * length ** len(sides), generator=generator, dtype=torch.float64)
        drawn = F.normalize(drawn - drawn.mean(1, keepdim=True))
        kernel = drawn.reshape(count, channels, *[length] * len(sides))
        self.kernel: Tensor
        self.register_buffer("kernel", kernel, persistent=False)
        self.width = count * cells(shape)

    def forward(self, x: Tensor) -> Tensor:
        if self.kernel.ndim == 4:
            return F.adaptive_avg_pool2d(F.conv2d(x, self.kernel, padding="same").relu(), GRID).flatten(1)
        return F.adaptive_avg_pool1d(F.conv1d(x, self.kernel, padding="same").relu(), STRETCHES).flatten(1)


class Edges(Filters):
    """Random filters over the local contrasts of grey images: magnitudes, averages over a grid."""

    def __init__(self, shape: tuple[int, ...], count: int, generator: torch.Generator):
        super().__init__((1, *shape[1:]), count, generator)

    def forward(self, x: Tensor) -> Tensor:
        contrasts = local_contrasts(x.mean(1, keepdim=True))
        return F.adaptive_avg_pool2d(F.conv2d(contrasts, self.kernel, padding="same").abs(), GRID).flatten(1)


def local_contrasts(grey: Tensor) -> Tensor:
    """e of images [B, 1, H, W]: how far each pixel is from its neighbours, measured by how these differ."""
    away = grey - _window_mean(grey)
    spread = (_window_mean(away.square()) + FLAT**2).sqrt()
    return away / torch.maximum(spread, spread.mean((2, 3), keepdim=True))


def _window_mean(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, WINDOW, stride=1, padding=WINDOW // 2, count_include_pad=False)


def cells(shape: tuple[int, ...]) -> int:
    """Into how many averages the map of one filter is divided."""
    return GRID**2 if len(shape) == 3 else STRETCHES


class RandomReLU(nn.Module):
    """max(0, w·x + b): w scaled so that standardised inputs give values of about unit size."""

    def __init__(self, shape: tuple[int, ...], size: int, generator: torch.Generator):
        super().__init__()
        inputs = math.prod(shape)
        weight = torch.randn(size, inputs, generator=generator, dtype=torch.float64) / math.sqrt(inputs)
        bias = torch.randn(size, generator=generator, dtype=torch.float64)
        self.weight: Tensor
        self.bias: Tensor
        self.register_buffer("weight", weight, persistent=False)
        self.register_buffer("bias", bias, persistent=False)
        self.width = size

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x.flatten(1), self.weight, self.bias).relu()


class Frozen(nn.Module):
    """The embedding of a model that nobody trains; feature maps are averaged over their positions."""

    def __init__(self, model: nn.Module, shape: tuple[int, ...]):
        super().__init__()
        self.model = model.eval().requires_grad_(False)
        with torch.no_grad():
            self.width = self(torch.zeros(2, *shape)).shape[1]

    def forward(self, x: Tensor) -> Tensor:
        base = getattr(self.model, "base", None)
        z: Tensor = base(x) if isinstance(base, nn.Module) else self.model(x)[0]
        return z if z.ndim == 2 else z.flatten(2).mean(2)


class CommonMap(nn.Module):
    """φ: the parts side by side, no longer than `radius`·√M; inputs may be standardised first.

    The parts lie outside of what torch registers, so that their tensors belong to no client.
    """

    def __init__(self, parts: list[Any], inputs: int, radius: float):
        super().__init__()
        self.parts = tuple(parts)
        self.width = sum(part.width for part in parts)
        self.inputs = inputs  # features (vectors) or channels (sequences) that are standardised
        self.longest = radius * math.sqrt(self.width)

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        """φ [B, M]; `scale` [2, X] holds mean and 1/deviation of each input, or has no rows."""
        with torch.no_grad():
            return self.values(x, scale)

    def values(self, x: Tensor, scale: Tensor) -> Tensor:
        """The same with gradients of x: for whoever wants to find inputs from features."""
        if len(scale):
            shape = (1, -1) + (1,) * (x.ndim - 2)
            x = (x - scale[0].view(shape)) * scale[1].view(shape)
        values = torch.cat([part(x) for part in self.parts], 1)
        length = values.square().sum(1, keepdim=True).sqrt()
        return values * (self.longest / length.clamp(min=self.longest))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> CommonMap:
        for part in self.parts:
            part._apply(fn, recurse)
        return self

    def __deepcopy__(self, memo: Any) -> CommonMap:
        return self  # it never changes


_made: weakref.WeakKeyDictionary[Task, CommonMap] = weakref.WeakKeyDictionary()


def common_map(task: Task, phi: str, size: int, standardise: bool, radius: float) -> CommonMap:
    """The task's map; built once, since a backbone may be large."""
    if task not in _made:
        name, shapes = task.algorithm.name, set(task.shapes)
        if len(shapes) != 1:
            known = ", ".join(str(list(shape)) for shape in sorted(shapes)) or "none"
            raise ConfigError(f"{name} needs inputs of one shape at all clients, got {known}")
        (shape,) = shapes
        parts = [
            part
            for number, written in _split(phi, name)
            for part in _parts(task, shape, written.strip(), size, number)
        ]
        inputs = shape[0] if standardise and len(shape) < 3 else 0
        made = CommonMap(parts, inputs, radius).to(task.device, task.dtype)
        _made[task] = made
    return _made[task]


def _split(phi: str, name: str) -> list[tuple[int, str]]:
    parts = [part for part in phi.split("+") if part.strip()]
    if not parts:
        raise ConfigError(f"{name}: phi is empty; give one of {', '.join(KINDS)}, or several joined by +")
    return list(enumerate(parts))


def _parts(task: Task, shape: tuple[int, ...], written: str, size: int, number: int) -> list[nn.Module]:
    name, sides = task.algorithm.name, len(shape) - 1
    kind = written if written != "auto" else {0: "relu", 1: "filters"}.get(sides, "both")
    generator = torch_generator(task.seed, "common map", number)
    if kind == "relu":
        return [RandomReLU(shape, size, generator)]
    if kind in ("filters", "edges", "both"):
        if sides not in (1, 2):
            raise ConfigError(f"{name}: phi={written} is for images and sequences, not for vectors; use relu")
        if kind == "edges" and sides != 2:
            raise ConfigError(f"{name}: phi=edges is for images, not for inputs of shape {list(shape)}")
        count = max(1, size // cells(shape))
        colours = {"filters": count, "edges": 0, "both": max(1, count // COLOURS)}[kind]
        parts = [(Filters, colours), (Edges, count - colours)]
        return [make(shape, many, generator) for make, many in parts if many]
    if kind.startswith("model:"):
        if task.make_model is None:
            raise ConfigError(f"{name}: phi={written}: this federation cannot build models by name")
        with seeded(task.seed, "common map", number):
            return [Frozen(task.make_model(kind.removeprefix("model:")), shape)]
    raise ConfigError(f"{name}: unknown phi {written!r}; known: {', '.join(KINDS)}, or several joined by +")
