"""What a client model is: `forward(x)` returns (embedding, logits).

A model made of a base and a head has both as attributes, so that methods may share one of them:
parameter names then start with "base." or "head.".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from ..core.registry import Registry


class Model(nn.Module):
    """A base that makes embeddings and a head that makes logits of them."""

    halves = True  # forward is head(base(x)) and nothing else: engines may run the two apart

    def __init__(self, base: nn.Module, head: nn.Module):
        super().__init__()
        self.base = base
        self.head = head

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.base(x)
        return z, self.head(z)


class Family(ABC):
    """A named architecture with options. Frozen dataclasses; the options are the fields."""

    name: ClassVar[str]
    positional: ClassVar[str] = ""  # option that may stand without its name: "timm:resnet18"

    @abstractmethod
    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        """A module for inputs of this shape, freshly initialised from torch's global generator."""


families: Registry[Family] = Registry("model", Family, "protofed.models")
