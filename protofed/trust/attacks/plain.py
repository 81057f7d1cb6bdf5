"""Attacks on one's own upload that need no knowledge of others: noise, multiples, the reversed sign."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...core.answer import Reply
from ...core.options import option
from ..uploads import with_floats
from ._base import Attack, Sight, attacks


@attacks.register("gaussian")
@dataclass(frozen=True)
class Gaussian(Attack):
    """Noise in place of every number."""

    sigma: float = option(3.0, "σ of the noise, in root mean squares of the tensor it replaces", above=0)

    def upload(self, reply: Reply, sight: Sight) -> Reply:
        generator = sight.generator(reply.client)

        def noise(t: torch.Tensor) -> torch.Tensor:
            drawn = torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t)
            return self.sigma * t.square().mean().sqrt() * drawn if t.numel() else t

        return with_floats(reply, noise)


@attacks.register("signflip")
@dataclass(frozen=True)
class SignFlip(Attack):
    """Every number with the other sign, and larger."""

    scale: float = option(10.0, "factor of the reversed upload", above=0)

    def upload(self, reply: Reply, sight: Sight) -> Reply:
        return with_floats(reply, lambda t: -self.scale * t)


@attacks.register("scale")
@dataclass(frozen=True)
class Scale(Attack):
    """Every number many times as large."""

    times: float = option(10.0, "factor")

    def upload(self, reply: Reply, sight: Sight) -> Reply:
        return with_floats(reply, lambda t: self.times * t)
