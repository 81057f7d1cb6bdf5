"""Dropout whose masks come from a seed that the engine sets before each step.

torch's own dropout draws from a global generator, so its masks depend on which clients ran before, and
it cannot run under vmap with one stream per client. Here every layer holds a seed; the mask is a pure
function of (seed, layer number, shape), the same on every engine. `make_reproducible` swaps the layers
of any module, also a user's own. A layer that forward calls twice drops the same positions both times.

Numbers come from SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), a function of a start and a place: masks of
all clients of a cohort are a few operations on one tensor, wherever it lies, and not a generator for each.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

_CHANNELWISE = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
LAYERS = 1009  # layers of one seed whose starts differ


def _signed(constant: int) -> int:
    return constant - 2**64


GAP = _signed(0x9E3779B97F4A7C15)  # between two places
MIXES = ((30, _signed(0xBF58476D1CE4E5B9)), (27, _signed(0x94D049BB133111EB)))  # shift, factor


class SeededDropout(nn.Module):
    """Dropout by element, or by channel where `channels` is true."""

    seed: Tensor

    def __init__(self, p: float, channels: bool = False):
        super().__init__()
        self.p = p
        self.channels = channels
        self.number = 0  # position in the module, so that layers differ under one seed
        self.register_buffer("seed", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if self.p == 1:
            return x * 0
        shape = x.shape[:2] + (1,) * (x.ndim - 2) if self.channels else x.shape
        kept: Tensor = _KeepMask.apply(self.seed, self.number, tuple(shape), 1 - self.p, x.dtype)  # type: ignore[no-untyped-call]
        return x * (kept / (1 - self.p))

    def extra_repr(self) -> str:
        return f"p={self.p}, channels={self.channels}"


class _KeepMask(torch.autograd.Function):
    """0/1 mask from a seed; under vmap one mask per client."""

    @staticmethod
    def forward(seed: Tensor, number: int, shape: tuple[int, ...], keep: float, dtype: torch.dtype) -> Tensor:
        return keep_masks(seed[None], number, shape, keep, dtype)[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, seed: Tensor, *rest: Any) -> tuple[Tensor, int | None]:
        if in_dims[0] is None:
            return _KeepMask.forward(seed, *rest), None
        return keep_masks(seed.movedim(in_dims[0], 0), *rest), 0


@torch.no_grad()
def keep_masks(seeds: Tensor, number: int, shape: tuple[int, ...], keep: float, dtype: torch.dtype) -> Tensor:
    """0/1 masks [K, …] of one layer of K clients, each with its seed: numbers below `keep` are kept."""
    starts = seeds * LAYERS + number
    drawn = random_words(starts, math.prod(shape)) < int(keep * 2**64) - 2**63
    return drawn.to(dtype).view(seeds.shape[0], *shape)


def random_words(starts: Tensor, count: int) -> Tensor:
    """[K, count] of 64 random bits each, as signed integers: SplitMix64 from each start, without
    its last xor, which changes low bits alone."""
    words = torch.arange(1, count + 1, device=starts.device).mul_(GAP) + starts[:, None]
    for shift, factor in MIXES:
        words.bitwise_xor_((words >> shift).bitwise_and_((1 << (64 - shift)) - 1)).mul_(factor)
    return words


def make_reproducible(module: nn.Module, first: int = 0) -> nn.Module:
    """Replace torch's dropout layers inside `module` (in place) and number them from `first` on."""
    for parent in list(module.modules()):
        # Not named_children(), which leaves out the second name of a layer.
        for name, child in list(parent._modules.items()):
            if isinstance(child, (nn.Dropout, *_CHANNELWISE)):
                setattr(parent, name, SeededDropout(child.p, isinstance(child, _CHANNELWISE)))
    if isinstance(module, (nn.Dropout, *_CHANNELWISE)):
        module = SeededDropout(module.p, isinstance(module, _CHANNELWISE))
    for number, layer in enumerate(dropout_layers(module), start=first):
        layer.number = number
    return module


def dropout_layers(module: nn.Module) -> list[SeededDropout]:
    """All reproducible dropout layers within a module, in its order."""
    return [m for m in module.modules() if isinstance(m, SeededDropout)]
