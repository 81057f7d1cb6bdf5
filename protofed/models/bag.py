"""A bag of tokens: the mean of their embeddings, for texts of whole numbers [length]. Token 0 is padding."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from ..core.errors import ConfigError
from ..core.options import option
from .base import Family, Model, families


class TokenBag(nn.Module):
    """[B, L] whole numbers to [B, D]: the mean over tokens that are not 0."""

    whole_inputs = True  # an example input for checks is one of whole numbers

    def __init__(self, vocabulary: int, dim: int):
        super().__init__()
        self.weight = nn.Parameter(nn.init.normal_(nn.Embedding(vocabulary, dim).weight.detach(), std=0.1))

    def forward(self, x: Tensor) -> Tensor:
        if x.is_floating_point():
            raise ConfigError(
                "tokens are needed, whole numbers: npz:PATH,tokens=true or csv:PATH,tokens=COLUMN"
            )
        try:
            found = self.weight.index_select(0, x.flatten()).reshape(*x.shape, -1)
        except IndexError:
            raise ConfigError(
                f"a token is not below the vocabulary of {len(self.weight)}; set bag:vocabulary=…"
            ) from None
        there = (x != 0).to(found.dtype)[..., None]
        mean: Tensor = (found * there).sum(-2) / there.sum(-2).clamp(min=1)
        return mean


@families.register("bag")
@dataclass(frozen=True)
class Bag(Family):
    """The mean of embedded tokens, and a linear layer; for texts of whole numbers, of which 0 is padding."""

    vocabulary: int = option(10_000, "tokens are below this number", low=2)
    width: int = option(32, "size of a token's embedding", low=1)
    dim: int = option(32, "size of the embedding", low=1)

    def build(self, shape: tuple[int, ...], num_classes: int) -> nn.Module:
        if len(shape) != 1:
            raise ConfigError(f"model {self.name}: expected texts of shape (length,), got {shape}")
        base = nn.Sequential(
            TokenBag(self.vocabulary, self.width), nn.Linear(self.width, self.dim), nn.ReLU()
        )
        return Model(base, nn.Linear(self.dim, num_classes))
