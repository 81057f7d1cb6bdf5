"""Dropout whose masks come from a seed that the engine sets before each step.

torch's own dropout draws from a global generator, so its masks depend on which clients ran before, and
it cannot run under vmap with one stream per client. Here every layer holds a seed; the mask is a pure
function of (seed, layer number, shape), the same on every engine. `make_reproducible` swaps the layers
of any module, also a user's own. A layer that forward calls twice drops the same positions both times.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

_CHANNELWISE = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


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
        generator = torch.Generator().manual_seed(int(seed) * 1009 + number)
        # Drawn in float32 whatever the dtype of x, so that float64 checks see the same masks.
        mask = torch.empty(shape).bernoulli_(keep, generator=generator)
        return mask.to(device=seed.device, dtype=dtype)

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


def keep_masks(seeds: Tensor, number: int, shape: tuple[int, ...], keep: float, dtype: torch.dtype) -> Tensor:
    """The masks [K, …] of K clients with their own seeds."""
    return torch.stack([_KeepMask.forward(seed, number, shape, keep, dtype) for seed in seeds])


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
