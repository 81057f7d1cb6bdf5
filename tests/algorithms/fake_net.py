"""A net whose modules are plain functions, so that a loss can be computed by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from protofed.core.data import Batch


class FakeNet:
    """`model` maps x to (embedding, logits), `head` an embedding to logits; `parts` are other modules.
    `net.at(tensors)` runs `frozen` in the place of the model."""

    def __init__(
        self,
        model: Callable[..., Any],
        head: Callable[[Tensor], Tensor] | None = None,
        parts: Mapping[str, Callable[..., Any]] | None = None,
        frozen: Callable[..., Any] | None = None,
    ):
        self.model, self.parts, self.frozen = model, parts or {}, frozen
        self.head = head

    def __call__(self, *args: Tensor) -> Any:
        return self.model(*args)

    def __getitem__(self, part: str) -> Any:
        return FakeNet(self.parts[part])

    def at(self, tensors: Mapping[str, Tensor]) -> Any:
        assert self.frozen is not None
        return FakeNet(self.frozen)


def says(z: Tensor, logits: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """A model that answers every batch with this."""
    return lambda x: (z, logits)


def floats(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def odds(*rows: tuple[float, ...]) -> Tensor:
    """Logits whose softmax is proportional to the given numbers, as a leaf with gradient."""
    return floats(rows).log().requires_grad_()


def batch(y: list[int], idx: list[int] | None = None, rand: dict[str, Tensor] | None = None) -> Batch:
    rows = torch.arange(len(y)) if idx is None else torch.tensor(idx)
    return Batch(torch.zeros(len(y), 1, dtype=torch.float64), torch.tensor(y), rows, floats(1.0), rand or {})
