"""Inputs found from rows of classes (prototypes): gradient descent on the input, through a known network.

    x* = argmin_x ‖f(x) − p‖² / ‖p‖² + what is held to be likely

by Adam, all rows at once, from two starts. *From nothing*: a plain input with a little noise; likely is what
is smooth (images and series: total variation) or near the mean (tables). *From others*: the mean of the class
at other clients, where an attacker has such samples; likely is what is near to it. After Mahendran and
Vedaldi, "Understanding Deep Image Representations by Inverting Them", CVPR 2015.

What is found is held against the client's training samples of the class: the nearest one counts. Beside it
stand both starts themselves, which need no upload. Only what lies above them was revealed by the upload.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.data import LocalData
from ..core.rng import torch_generator
from ..metrics.attack_scores import psnr, scaled_error
from .membership import Features
from .watch import NOBODY, Watch

RATE = 0.1  # Adam's first step, in deviations of the inputs; falls to 0
SMOOTH, NEAR = 0.03, 0.03  # weights of roughness, and of the distance from the start
START = 0.5  # deviations of the noise at a plain start
STEPS = 200
NOTHING, OTHERS = "nothing", "the class's mean at other clients"  # what an attacker starts from


@dataclass(frozen=True)
class Scale:
    """What an attacker knows of inputs without any upload, from others: their range, mean and variance."""

    low: float
    high: float
    mean: Tensor  # of a sample's shape
    variance: Tensor

    @property
    def image(self) -> bool:
        """Whether inputs are [channels, H, W]; else tables and series."""
        return self.mean.ndim == 3

    @property
    def deviation(self) -> Tensor:
        """By which steps and starts are measured: one for all pixels of images, which may never vary at the
        rim; else of each input."""
        deviation = self.variance.sqrt()
        return self.variance.mean().sqrt().expand_as(deviation) if self.image else deviation


def scale_of(samples: Sequence[Tensor]) -> Scale:
    """The scale of these samples, each [N, …]."""
    x = torch.cat(list(samples))
    variance, mean = torch.var_mean(x, 0, correction=0)
    return Scale(float(x.min()), float(x.max()), mean, variance)


class Descent(NamedTuple):
    """How an attacker goes down. The same key, the same numbers; `watch` hears of each row's steps."""

    scale: Scale
    steps: int
    key: int = 0
    watch: Watch = NOBODY


def invert(features: Features, rows: Tensor, starts: Tensor, smooth: Tensor, how: Descent) -> Tensor:
    """Inputs [J, …] whose features come near to rows [J, E], from these starts (`descend`)."""
    length = rows.square().sum(1).clamp(min=1e-12)
    return descend(lambda x: (features(x) - rows).square().sum(1) / length, starts, smooth, how)


def descend(away: Callable[[Tensor], Tensor], starts: Tensor, smooth: Tensor, how: Descent) -> Tensor:
    """Inputs [J, …] that are little away, [J], from these starts; `smooth` [J]: whether smooth inputs are
    likely, else those near to the start."""
    scale, flat = how.scale, starts.ndim == 2
    deviation, generator = scale.deviation, torch_generator("inversion", how.key)
    noise = torch.randn(starts.shape[1:], generator=generator, dtype=torch.float64)
    blurred = smooth.reshape(-1, *[1] * noise.ndim)  # networks may have no gradient at a plain input
    u = (START * noise.to(starts) * blurred).requires_grad_()  # in deviations from the start
    optimiser = torch.optim.Adam([u], lr=RATE)
    fall = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.02, max(1, how.steps))
    with torch.enable_grad():
        for _ in range(how.steps):
            x = _within(starts + deviation * u, scale)
            near = NEAR * u.square().flatten(1).mean(1)
            prior = near if flat else torch.where(smooth, SMOOTH * _roughness(u), near)
            (u.grad,) = torch.autograd.grad((away(x) + prior).sum(), [u])
            u.grad.nan_to_num_(0.0, 0.0, 0.0)
            optimiser.step()
            fall.step()
            how.watch.step(len(starts))
    return _within(starts + deviation * u.detach(), scale)


def _within(x: Tensor, scale: Scale) -> Tensor:
    """Pixels have a range, which everybody knows."""
    return x.clamp(scale.low, scale.high) if scale.image else x


def _roughness(u: Tensor) -> Tensor:
    """Mean absolute difference of neighbours [J]."""
    parts = [u.diff(dim=axis).abs().flatten(1).mean(1) for axis in range(2, u.ndim)]
    return torch.stack(parts).sum(0)


@dataclass(frozen=True)
class Likeness:
    """How near a guess comes to the training samples of its class, for each row: in dB for images (higher is
    nearer), else as an error (lower is nearer)."""

    nearest: Tensor  # [J]: to the sample that it comes nearest to
    which: Tensor  # [J]: that sample's row among the client's


def likeness(guess: Tensor, cls: Tensor, data: LocalData, scale: Scale) -> Likeness:
    """Of guesses [J, …] for classes [J], held against a client's samples, of which each class has some."""
    nearest, which = [], []
    for one, c in zip(guess, cls.tolist()):
        rows = torch.nonzero(data.y == c)[:, 0]
        truth = data.x[rows]
        if scale.image:
            values = psnr(one, truth, scale.high - scale.low)
            at = int(values.argmax())
        else:
            values = scaled_error(one, truth, scale.variance, truth.ndim - 1)
            at = int(values.argmin())
        nearest.append(values[at])
        which.append(rows[at])
    return Likeness(torch.stack(nearest).double(), torch.stack(which))


def guesses(others: Sequence[LocalData], classes: Tensor, scale: Scale) -> dict[str, Tensor]:
    """What can be guessed without an upload for these classes [J], by what it rests on: a plain input, and
    the mean of the class at other clients (of all inputs, where they have none of the class)."""
    x, y = (torch.cat([getattr(data, name) for data in others]) for name in ("x", "y"))
    means = [x[y == c].mean(0) if bool((y == c).any()) else scale.mean for c in classes.tolist()]
    plain = torch.full_like(scale.mean, float(scale.mean.mean())) if scale.image else scale.mean
    return {NOTHING: plain.expand(len(classes), *plain.shape), OTHERS: torch.stack(means)}
