"""A client's model as a module of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..core.algorithm import Algorithm
from ..core.data import ClassCounts
from ..core.net import LiveNet, Modules
from ..core.record import Record, Tree


class TestedModel(nn.Module):
    """(embedding, scores) of a method whose scores are more than the logits of the client's network: those of
    its mode `clf`, or of its main mode if it has none such."""

    __test__ = False

    def __init__(
        self, modules: Modules, algorithm: Algorithm, mode: str, known: ClassCounts, down: Record, mem: Tree
    ):
        super().__init__()
        self.parts = nn.ModuleDict(modules)
        self.mode = mode
        self._predicts: Any = (algorithm, known, down, mem)
        for part, arrays in (("down", down.arrays()), ("mem", mem)):  # so that a file of weights has them too
            for name, tensor in arrays.items():
                self.register_buffer(f"{part} {name}".replace(".", "/"), tensor)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        algorithm, known, down, mem = self._predicts
        parts = dict(self.parts.items())
        net = LiveNet(parts, parts)
        with torch.no_grad():
            return net.embed(x), algorithm.predict(net, x, known, down, mem)[self.mode]
