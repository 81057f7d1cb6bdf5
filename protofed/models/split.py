"""Turn a plain module into a Model of base and head by cutting off its last layer."""

from __future__ import annotations

from torch import nn

from ..core.errors import ConfigError, unknown
from .base import Model


def split_head(module: nn.Module, head: str) -> Model:
    """`Model(base, head)`: the layer called `head` is taken out and an identity left in its place.

    The layer must be the last one that forward applies. Dotted names reach into children.

    >>> model = split_head(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), "1")
    >>> model.head
    Linear(in_features=3, out_features=2, bias=True)
    """
    layers = dict(module.named_modules())
    if not head or head not in layers:
        raise ConfigError(f"{type(module).__name__}: {unknown('layer', head, [n for n in layers if n])}")
    parent, _, last = head.rpartition(".")
    setattr(layers[parent], last, nn.Identity())
    return Model(module, layers[head])
