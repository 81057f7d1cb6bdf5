"""Plain SGD on large linear layers, done in the backward pass: W ← W − η · (∂L/∂out)ᵀ x in one product.

Such layers at small batches are bound by memory: the usual way writes a gradient as large as the weights and
reads it again for the update. Only where the update is linear in the gradient (no momentum, decay or
clipping), and only for layers that a loss runs once and whose weights it does not read otherwise: the first
step of a phase goes the usual way and finds out. Numbers are equal to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from .net import LiveNet
from .optim import Opt

LARGE = 1 << 19  # weights of a layer from which on it pays (docs/speed.md)


class FusedUpdates:
    """The large linear layers of a live net while one client trains it."""

    def __init__(self, net: LiveNet, opt_of: Mapping[str, Opt]):
        """`opt_of`: the optimiser of each parameter that is trained."""
        self.net = net
        self.calls: dict[nn.Linear, int] = {}
        for part, module in net.modules.items():
            for path, layer in module.named_modules():
                opt = opt_of.get(f"{part}.{path}.weight" if path else f"{part}.weight")
                if opt is not None and _plain(opt) and type(layer) is nn.Linear and _large(layer):
                    self.calls[layer] = 0
                    layer.forward = partial(self._counted, layer, opt.lr)  # type: ignore[method-assign]
        self.net.asked[0] = False

    def after_step(self) -> None:
        """What the first step has shown: from now on the layers that it ran once are updated as they go."""
        if not any(self.calls.values()):
            return
        for layer, calls in self.calls.items():
            run: Callable[..., Tensor] = layer.forward
            if calls == 1 and not self.net.asked[0] and isinstance(run, partial):
                layer.forward = partial(_run, layer, run.args[1])  # type: ignore[method-assign]
            else:
                del layer.forward
            self.calls[layer] = 0

    def remove(self) -> None:
        """All layers are as they were."""
        for layer in self.calls:
            vars(layer).pop("forward", None)

    def _counted(self, layer: nn.Linear, lr: float, x: Tensor) -> Tensor:
        self.calls[layer] += 1
        return linear(x, layer.weight, layer.bias)


def _plain(opt: Opt) -> bool:
    return opt.optimizer == "sgd" and not (opt.momentum or opt.weight_decay or opt.clip)


def _large(layer: nn.Linear) -> bool:
    return layer.weight.numel() >= LARGE


def _run(layer: nn.Linear, lr: float, x: Tensor) -> Tensor:
    if not torch.is_grad_enabled() or not layer.weight.requires_grad:
        return linear(x, layer.weight, layer.bias)
    out: Tensor = _Updated.apply(x, layer.weight, layer.bias, lr)  # type: ignore[no-untyped-call]
    return out


class _Updated(torch.autograd.Function):
    """A linear layer whose backward pass changes the weights instead of giving their gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, lr: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.lr = lr
        return linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        (out,) = grads
        back = out @ weight if ctx.needs_input_grad[0] else None
        flat = out.reshape(-1, out.shape[-1])
        weight.addmm_(flat.T, x.reshape(-1, x.shape[-1]), alpha=-ctx.lr)
        return back, None, flat.sum(0) if ctx.needs_input_grad[2] else None, None
