"""Nets: a client's modules bound to its tensors. Methods call them; engines decide how they run.

z, logits = net(x)             the client's model
net.embed(x), net.head(z)      its two halves, where the model has them
net["aux"](x)                  another module that the method declared
net.at(tensors)(x)             a frozen copy in eval mode, say the previous model
net.at(tensors, training=True) the same in the mode of the net itself: while training, train mode
net.tensors("model.head.")     parameters and buffers by prefix, safe to keep
net.parameters()               the parameters themselves, for loss terms on weights
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from .errors import ConfigError
from .record import Tree

Modules = Mapping[str, nn.Module]


def selects(prefixes: Iterable[str], name: str) -> bool:
    """Whether `name` starts with one of the prefixes; "" selects everything, "!model.head." takes away.

    >>> selects(("", "!model.head."), "model.base.0.weight")
    True
    >>> selects(("", "!model.head."), "model.head.weight")
    False
    """
    found = False
    for prefix in prefixes:
        if prefix.startswith("!"):
            if name.startswith(prefix[1:]):
                return False
        elif name.startswith(prefix):
            found = True
    return found


class Net(ABC):
    """What a method may do with a model, on every engine."""

    part: str

    @abstractmethod
    def __call__(self, *args: Tensor) -> Any:
        """Run the module: (embedding, logits) for a client model."""

    @abstractmethod
    def embed(self, x: Tensor) -> Tensor:
        """Embedding alone."""

    @abstractmethod
    def head(self, z: Tensor) -> Tensor:
        """Logits of embeddings."""

    @abstractmethod
    def __getitem__(self, part: str) -> Net:
        """Another module of this client."""

    @abstractmethod
    def at(self, tensors: Mapping[str, Tensor], training: bool = False) -> Net:
        """The same modules with other tensors, frozen, in eval mode; with `training` in the mode of this net.
        Statistics that BatchNorm then counts are lost."""

    @abstractmethod
    def tensors(self, *prefixes: str) -> Tree:
        """Copies of parameters and buffers whose names start so; all without prefixes."""

    @abstractmethod
    def parameters(self, *prefixes: str) -> Tree:
        """The parameters themselves, by full name, without buffers: gradients flow into them."""


class LiveNet(Net):
    """Real modules whose parameters are overwritten by the client at work: the fast path."""

    def __init__(
        self, modules: Modules, frozen: Modules, part: str = "model", asked: list[bool] | None = None
    ):
        self.modules = modules
        self.frozen = frozen
        self.part = part
        self.asked = asked or [False]  # whether the parameters themselves were handed out; one for all parts
        self._module = modules[part]

    def __call__(self, *args: Tensor) -> Any:
        return self._module(*args)

    def embed(self, x: Tensor) -> Tensor:
        return _embed(self._module, x)

    def head(self, z: Tensor) -> Tensor:
        out: Tensor = half(self._module, "head")(z)
        return out

    def __getitem__(self, part: str) -> LiveNet:
        return LiveNet(self.modules, self.frozen, part, self.asked)

    def at(self, tensors: Mapping[str, Tensor], training: bool = False) -> BoundNet:
        if training:
            return BoundNet(self.modules, with_own_buffers(self.modules, tensors), self.part)
        return BoundNet(self.frozen, tensors, self.part)

    def tensors(self, *prefixes: str) -> Tree:
        return {
            name: tensor.detach().clone(memory_format=torch.contiguous_format)
            for name, tensor in self.named().items()
            if not prefixes or selects(prefixes, name)
        }

    def parameters(self, *prefixes: str) -> Tree:
        self.asked[0] = True
        found = self._parameters
        return {n: p for n, p in found.items() if selects(prefixes, n)} if prefixes else dict(found)

    @cached_property
    def _parameters(self) -> Tree:
        return dict(_named_parameters(self.modules))

    @cached_property
    def within(self) -> dict[str, list[nn.Module]]:
        """All modules of each part."""
        return {part: list(module.modules()) for part, module in self.modules.items()}

    def named(self) -> Tree:
        """The live tensors themselves, by full name."""
        return {name: table[key] for name, table, key in self._places}

    @cached_property
    def _places(self) -> list[tuple[str, dict[str, Tensor], str]]:
        """Where each tensor of a state_dict lies: walking through the modules takes as long as a small
        model's forward pass."""
        return [
            (f"{part}.{path}.{key}" if path else f"{part}.{key}", table, key)
            for part, module in self.modules.items()
            for path, owner in module.named_modules(remove_duplicate=False)
            for table, left_out in (
                (owner._parameters, frozenset()),
                (owner._buffers, owner._non_persistent_buffers_set),
            )
            for key, tensor in table.items()
            if tensor is not None and key not in left_out
        ]

    @cached_property
    def tied(self) -> tuple[str, str] | None:
        """Two names of one tensor, if layers share any."""
        first: dict[int, str] = {}
        for name, tensor in self.named().items():
            if (other := first.setdefault(id(tensor), name)) != name:
                return other, name
        return None

    def install(self, tensors: Mapping[str, Tensor]) -> None:
        """Overwrite the modules' tensors. The layout in memory stays the modules' own."""
        with torch.no_grad():
            for name, target in self.named().items():
                target.copy_(tensors[name])


class BoundNet(Net):
    """Modules called as functions of given tensors: frozen copies, and nets under vmap."""

    def __init__(self, modules: Modules, bound: Mapping[str, Tensor], part: str = "model"):
        self.modules = modules
        self.bound = bound
        self.part = part

    def _run(self, module: nn.Module, prefix: str, *args: Tensor) -> Any:
        own = {n[len(prefix) :]: t for n, t in self.bound.items() if n.startswith(prefix)}
        return functional_call(module, own, args)

    def __call__(self, *args: Tensor) -> Any:
        return self._run(self.modules[self.part], f"{self.part}.", *args)

    def embed(self, x: Tensor) -> Tensor:
        module = self.modules[self.part]
        if hasattr(module, "base"):
            z: Tensor = self._run(half(module, "base"), f"{self.part}.base.", x)
            return z
        return _first(self(x))

    def head(self, z: Tensor) -> Tensor:
        head = half(self.modules[self.part], "head")
        out: Tensor = self._run(head, f"{self.part}.head.", z)
        return out

    def __getitem__(self, part: str) -> BoundNet:
        return BoundNet(self.modules, self.bound, part)

    def at(self, tensors: Mapping[str, Tensor], training: bool = False) -> BoundNet:
        return BoundNet(
            self.modules, with_own_buffers(self.modules, tensors) if training else tensors, self.part
        )

    def tensors(self, *prefixes: str) -> Tree:
        return {
            name: tensor.detach().clone()
            for name, tensor in self.bound.items()
            if not prefixes or selects(prefixes, name)
        }

    def parameters(self, *prefixes: str) -> Tree:
        return {
            name: self.bound[name]
            for name, _ in _named_parameters(self.modules)
            if name in self.bound and (not prefixes or selects(prefixes, name))
        }


def with_own_buffers(modules: Modules, tensors: Mapping[str, Tensor]) -> Tree:
    """The tensors, with copies of the buffers: BatchNorm in train mode writes into its statistics."""
    buffers = {f"{part}.{name}" for part, module in modules.items() for name, _ in module.named_buffers()}
    return {name: tensor.clone() if name in buffers else tensor for name, tensor in tensors.items()}


def half(module: nn.Module, which: str) -> nn.Module:
    """The base or the head of a model; an error for a model that is not made of two halves."""
    found = getattr(module, which, None)
    if not isinstance(found, nn.Module):
        raise ConfigError(
            f"model {type(module).__name__} has no `{which}`: build it as protofed.Model(base, head), "
            f"or choose a method that does not need the {which} on its own"
        )
    return found


def _embed(module: nn.Module, x: Tensor) -> Tensor:
    if hasattr(module, "base"):
        z: Tensor = half(module, "base")(x)
        return z
    return _first(module(x))


def _named_parameters(modules: Modules) -> Iterator[tuple[str, nn.Parameter]]:
    for part, module in modules.items():
        for name, parameter in module.named_parameters():
            yield f"{part}.{name}", parameter


def _first(out: tuple[Tensor, Tensor]) -> Tensor:
    return out[0]
