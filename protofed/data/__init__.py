"""Data: sources give a `Dataset`, partitioners divide it among clients.

dataset = load("digits")
split = partition("dirichlet:beta=0.5", dataset, clients=20, seed=0)
"""

from __future__ import annotations

# First, because it imports the sub-packages `sources` and `partition`: the registry and the function
# below take over these two names. Their modules stay importable as `protofed.data.sources.<name>`.
from .specs import load, partition  # isort: skip
from .base import VOID, Dataset, Partitioner, Rows, Source, Split, partitions, sources

__all__ = [
    "VOID",
    "Dataset",
    "Partitioner",
    "Rows",
    "Source",
    "Split",
    "load",
    "partition",
    "partitions",
    "sources",
]
