"""Many clients' networks as one: layers with a leading client axis, for the cohort engine.

A layer of K clients runs as one operation: a convolution with K groups over channels_last images, a
batched matrix product, one BatchNorm over K × C channels. Modules made of common layers (anything
nested in nn.Sequential, and models with base and head) take this path; any other module runs through
torch's vmap, which gives the same numbers more slowly.

Methods do not notice: their `loss` runs under vmap over clients, and `net(x)` there is one autograd
function whose vmap rule is the stacked forward. Autograd outside records what the rule does, so no
backward pass is written here.

Between layers, values are either images [B, K·C, H, W] or vectors [K, B, F].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..core.dropout import SeededDropout, keep_masks
from ..core.max_pool import MaxPool2
from ..core.net import BoundNet, Modules, half, with_own_buffers

Tensors = Mapping[str, Tensor]


def can_stack(module: nn.Module) -> bool:
    """Whether every layer of the module has a stacked form. Asked in every step, so found out once."""
    known = _STACKS.get(module)
    if known is None:
        known = _STACKS[module] = _can_stack(module)
    return known


def _can_stack(module: nn.Module) -> bool:
    if isinstance(module, nn.Sequential):
        return all(can_stack(child) for child in module)
    if _is_model(module):
        return can_stack(half(module, "base")) and can_stack(half(module, "head"))
    if isinstance(module, nn.Conv2d) and not _plain_conv(module):
        return False
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) and module.momentum is None:
        return False  # a cumulative average needs each client's own count
    if isinstance(module, nn.LayerNorm) and len(module.normalized_shape) > 1:
        return False
    return type(module) in _RULES


def run_stacked(module: nn.Module, tensors: Tensors, x: Tensor, clients: int, prefix: str = "") -> Tensor:
    """Run the module for K clients. `x` is [K, B, …]; tensors carry a leading client axis, and their names
    begin with the prefix."""
    value, images = (_to_images(x), True) if x.ndim == 5 else (x, False)
    for rule, layer, names in _layers(module):
        own = {n: tensors[prefix + path] for n, path in names if prefix + path in tensors}
        value, images = rule(layer, own, value, images, clients)
    return _from_images(value, clients) if images else value


class StackedNet(BoundNet):
    """A net under vmap over clients: parts with a stacked form run as one, others through vmap."""

    def __call__(self, *args: Tensor) -> Any:
        module = self.modules[self.part]
        if len(args) == 1 and _is_model(module) and can_stack(module):
            z = self._stacked(half(module, "base"), f"{self.part}.base.", args[0])
            return z, self._stacked(half(module, "head"), f"{self.part}.head.", z)
        if len(args) == 1 and can_stack(module):
            return self._stacked(module, f"{self.part}.", args[0])
        return super().__call__(*args)

    def embed(self, x: Tensor) -> Tensor:
        module = self.modules[self.part]
        if _is_model(module) and can_stack(half(module, "base")):
            return self._stacked(half(module, "base"), f"{self.part}.base.", x)
        return super().embed(x)

    def head(self, z: Tensor) -> Tensor:
        module = half(self.modules[self.part], "head")
        if can_stack(module):
            return self._stacked(module, f"{self.part}.head.", z)
        return super().head(z)

    def __getitem__(self, part: str) -> Self:
        return type(self)(self.modules, self.bound, part, self.frozen)

    def at(self, tensors: Tensors, training: bool = False) -> Self:
        if not training:
            return type(self)(self.frozen, tensors, self.part, self.frozen)
        used = {n: t for n, t in tensors.items() if not n.endswith("num_batches_tracked")}
        used |= {n: t for n, t in self.bound.items() if n not in tensors}  # seeds of dropout
        return type(self)(self.modules, with_own_buffers(self.modules, used), self.part, self.frozen)

    def __init__(self, modules: Modules, bound: Tensors, part: str = "model", frozen: Modules | None = None):
        super().__init__(modules, bound, part)
        self.frozen = frozen if frozen is not None else modules

    def _stacked(self, module: nn.Module, prefix: str, x: Tensor) -> Tensor:
        own = {n[len(prefix) :]: t for n, t in self.bound.items() if n.startswith(prefix)}
        out: Tensor = _Forward.apply(module, tuple(own), x, *own.values())  # type: ignore[no-untyped-call]
        return out


class CarriedNet(StackedNet):
    """The same without vmap, for a loss that carries clients itself: inputs and results have their axis."""

    def _stacked(self, module: nn.Module, prefix: str, x: Tensor) -> Tensor:
        return run_stacked(module, self.bound, x, x.shape[0], prefix)


class _Forward(torch.autograd.Function):
    """Only its vmap rule is ever used."""

    @staticmethod
    def forward(module: nn.Module, names: tuple[str, ...], x: Tensor, *values: Tensor) -> Tensor:
        raise RuntimeError("stacked modules run under vmap only")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, module: nn.Module, names: tuple[str, ...], x: Tensor, *values: Tensor
    ) -> tuple[Tensor, int]:
        clients = info.batch_size
        dims = in_dims[2:]
        x = x.movedim(dims[0], 0) if dims[0] is not None else x.expand(clients, *x.shape)
        tensors = {
            name: value.movedim(dim, 0) if dim is not None else value.expand(clients, *value.shape)
            for name, value, dim in zip(names, values, dims[1:])
        }
        return run_stacked(module, tensors, x, clients), 0


# layers


def _layers(module: nn.Module) -> list[_Layer]:
    """The layers of a module in their order: walking through it takes as long as a small layer."""
    if not isinstance(module, nn.Sequential):  # kept, it would hold itself in memory
        return _walk(module, "")
    known = _WALKS.get(module)
    if known is None:
        known = _WALKS[module] = _walk(module, "")
    return known


def _walk(module: nn.Module, prefix: str) -> list[_Layer]:
    if isinstance(module, nn.Sequential):
        return [one for name, child in module.named_children() for one in _walk(child, f"{prefix}{name}.")]
    names = [(name, prefix + name) for name in _NAMES.get(type(module), ())]
    return [(_RULES[type(module)], module, names)]


def _conv(m: nn.Conv2d, t: Tensors, x: Tensor, images: bool, clients: int) -> tuple[Tensor, bool]:
    weight = t["weight"].flatten(0, 1).contiguous(memory_format=torch.channels_last)
    bias = t["bias"].flatten() if "bias" in t else None
    out = F.conv2d(x, weight, bias, m.stride, m.padding, m.dilation, m.groups * clients)
    return out, True


def _linear(m: nn.Linear, t: Tensors, x: Tensor, images: bool, clients: int) -> tuple[Tensor, bool]:
    x = _from_images(x, clients) if images else x
    weight = t["weight"].transpose(1, 2)
    if "bias" in t:
        return torch.baddbmm(t["bias"][:, None], x, weight), False
    return torch.bmm(x, weight), False


def _flatten(m: nn.Flatten, t: Tensors, x: Tensor, images: bool, clients: int) -> tuple[Tensor, bool]:
    return (_from_images(x, clients) if images else x).flatten(2), False


def _norm(m: Any, t: Tensors, x: Tensor, images: bool, clients: int) -> tuple[Tensor, bool]:
    if not images:
        x = x.movedim(0, 1).flatten(1)  # [B, K·F]
    flat = {name: value.flatten() for name, value in t.items()}
    stats = (flat.get("running_mean"), flat.get("running_var"))
    training = m.training or stats[0] is None
    if training and "num_batches_tracked" in t:
        t["num_batches_tracked"].add_(1)
    out = F.batch_norm(x, *stats, flat.get("weight"), flat.get("bias"), training, m.momentum, m.eps)
    if images:
        return out, True
    return out.view(len(out), clients, -1).movedim(1, 0), False


def _layer_norm(m: nn.LayerNorm, t: Tensors, x: Tensor, images: bool, clients: int) -> tuple[Tensor, bool]:
    x = _from_images(x, clients) if images else x
    out = F.layer_norm(x, m.normalized_shape, eps=m.eps)
    if "weight" in t:
        out = out * t["weight"][:, None]
    return out + t["bias"][:, None] if "bias" in t else out, False


def _dropout(m: SeededDropout, t: Tensors, x: Tensor, images: bool, clients: int) -> tuple[Tensor, bool]:
    if not m.training or m.p == 0:
        return x, images
    if m.p == 1:
        return x * 0, images
    one = (x.shape[0], x.shape[1] // clients, *x.shape[2:]) if images else tuple(x.shape[1:])
    shape = one[:2] + (1,) * (len(one) - 2) if m.channels else one
    mask = keep_masks(t["seed"], m.number, shape, 1 - m.p, x.dtype)  # [K, B, …]
    if images:
        mask = mask.movedim(0, 1).flatten(1, 2)
    return x * (mask / (1 - m.p)), images


def _pool(m: nn.AdaptiveAvgPool2d, t: Tensors, x: Tensor, images: bool, clients: int) -> tuple[Tensor, bool]:
    return m(x), True


def _same(m: nn.Module, t: Tensors, x: Tensor, images: bool, clients: int) -> tuple[Tensor, bool]:
    """Layers that treat every value, or every channel, alike."""
    return m(x), images


_Rule = Callable[[Any, Tensors, Tensor, bool, int], tuple[Tensor, bool]]
_Layer = tuple[_Rule, nn.Module, list[tuple[str, str]]]  # with its tensors: their names there, and in all
_STACKS: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
_WALKS: WeakKeyDictionary[nn.Module, list[_Layer]] = WeakKeyDictionary()
_RULES: dict[type, _Rule] = {
    nn.Conv2d: _conv,
    nn.Linear: _linear,
    nn.Flatten: _flatten,
    nn.BatchNorm2d: _norm,
    nn.BatchNorm1d: _norm,
    nn.LayerNorm: _layer_norm,
    SeededDropout: _dropout,
    nn.MaxPool2d: _same,
    MaxPool2: _same,
    nn.AvgPool2d: _same,
    nn.AdaptiveAvgPool2d: _pool,
    nn.ReLU: _same,
    nn.Identity: _same,
    nn.Tanh: _same,
    nn.Sigmoid: _same,
    nn.GELU: _same,
}
_NAMES: dict[type, tuple[str, ...]] = {
    nn.Conv2d: ("weight", "bias"),
    nn.Linear: ("weight", "bias"),
    nn.BatchNorm2d: ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"),
    nn.BatchNorm1d: ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"),
    nn.LayerNorm: ("weight", "bias"),
    SeededDropout: ("seed",),
}


def _plain_conv(module: nn.Conv2d) -> bool:
    return module.padding_mode == "zeros"


def _is_model(module: nn.Module) -> bool:
    """A model whose forward is head∘base, known by its class declaring so."""
    return bool(getattr(module, "halves", False))


def _to_images(x: Tensor) -> Tensor:
    """[K, B, C, H, W] to [B, K·C, H, W] in channels_last."""
    k, b, c, h, w = x.shape
    return x.permute(1, 3, 4, 0, 2).contiguous().view(b, h, w, k * c).permute(0, 3, 1, 2)


def _from_images(x: Tensor, clients: int) -> Tensor:
    """[B, K·C, H, W] to [K, B, C, H, W]."""
    b, c, *size = x.shape
    return x.view(b, clients, c // clients, *size).movedim(1, 0)
