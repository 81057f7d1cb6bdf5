"""Faults rather than attacks: uploads that no server may accept, and that must not stop it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.answer import Reply
from ..uploads import with_floats
from ._base import Attack, Sight, attacks


@attacks.register("nan")
@dataclass(frozen=True)
class Nan(Attack):
    """Every number is NaN."""

    def upload(self, reply: Reply, sight: Sight) -> Reply:
        return with_floats(reply, lambda t: torch.full_like(t, torch.nan))


@attacks.register("shape")
@dataclass(frozen=True)
class Shape(Attack):
    """Every tensor is one number too long."""

    def upload(self, reply: Reply, sight: Sight) -> Reply:
        return with_floats(reply, _longer)


def _longer(t: Tensor) -> Tensor:
    return torch.cat([t.flatten(), t.new_zeros(1)])
