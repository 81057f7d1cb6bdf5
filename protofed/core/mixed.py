"""Mixed precision of local steps: layers compute in bfloat16, everything else stays as it is.

torch's autocast is switched on around the net alone, and what the net gives comes back in the task's own
precision. So weights, loss terms, prototypes, optimiser, messages and tests know nothing of it, and a loss
never meets two kinds of floats. bfloat16 has the exponents of float32: no scaling of gradients, which float16
would need.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from .errors import ConfigError
from .net import Net
from .record import Tree


def check_mixed(device: torch.device) -> None:
    """ConfigError where layers cannot compute in bfloat16."""
    known = torch.amp.is_autocast_available(device.type)
    if not known or (device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False)):
        raise ConfigError(f"dtype bf16-mixed: device {device} cannot compute so; use float32")


def autocast(device: torch.device, kind: torch.dtype) -> AbstractContextManager[Any]:
    """While it holds, matrix products and convolutions on the device compute in `kind`."""
    return torch.autocast(device.type, kind)


class MixedNet(Net):
    """A net whose layers compute in another precision than their weights and results have."""

    def __init__(self, net: Net, device: torch.device, kind: torch.dtype, results: torch.dtype):
        self.net = net
        self.part = net.part
        self.device = device
        self.kind = kind
        self.results = results

    def __call__(self, *args: Tensor) -> Any:
        with autocast(self.device, self.kind):
            out = self.net(*args)
        return tuple(map(self._back, out)) if isinstance(out, tuple) else self._back(out)

    def embed(self, x: Tensor) -> Tensor:
        with autocast(self.device, self.kind):
            z = self.net.embed(x)
        return self._back(z)

    def head(self, z: Tensor) -> Tensor:
        with autocast(self.device, self.kind):
            logits = self.net.head(z)
        return self._back(logits)

    def __getitem__(self, part: str) -> MixedNet:
        return self._around(self.net[part])

    def at(self, tensors: Mapping[str, Tensor], training: bool = False) -> MixedNet:
        return self._around(self.net.at(tensors, training))

    def tensors(self, *prefixes: str) -> Tree:
        return self.net.tensors(*prefixes)

    def parameters(self, *prefixes: str) -> Tree:
        return self.net.parameters(*prefixes)

    def _around(self, net: Net) -> MixedNet:
        return MixedNet(net, self.device, self.kind, self.results)

    def _back(self, value: Tensor) -> Tensor:
        return value.to(self.results) if value.is_floating_point() else value
