"""FedProto's messages and state from plain numbers."""

from __future__ import annotations

import torch
from by_hand import floats
from torch import Tensor

from protofed.algorithms.fedproto import Global, Protos


def protos(rows: dict[int, tuple[list[float], int]], weights: dict[str, Tensor] | None = None) -> Protos:
    """A message from {class: (prototype, samples)}."""
    mean = floats([mean for mean, _ in rows.values()]).reshape(len(rows), 2)
    count = torch.tensor([n for _, n in rows.values()], dtype=torch.int64)
    return Protos(mean, torch.tensor(list(rows), dtype=torch.int64), count, weights or {})


def empty() -> Global:
    return Global(torch.zeros(3, 2, dtype=torch.float64), torch.zeros(3, dtype=torch.int64), {}, {})
