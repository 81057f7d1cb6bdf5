"""Samples of each class at each client, in class_counts.dat: what predictions among a client's own classes
need of its training data. The file holds no sample.

Kept are rows (client, class, count) of what is there: a million clients with few classes each take some
megabytes. They are tensors in a safetensors file, with a checksum behind it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from ..core.checksums import add_checksum, strip_checksum
from ..core.data import ClientData
from ..core.errors import RunError
from ..core.tensor_file import of_bytes, to_bytes
from ..data.federated import SplitData
from .seals import read_content, write_content

FILE = "class_counts.dat"


def count_rows(data: ClientData, classes: int) -> Tensor:
    """int64 [J, 3]: client, class and count, of what each client trains on."""
    if isinstance(data, SplitData) and not data.loader.dataset.dense:  # labels alone: no inputs are read
        rows, y = data.loader.split.train, np.asarray(data.loader.dataset.y)
        owner = np.repeat(np.arange(len(rows), dtype=np.int64), rows.sizes)
        found, n = np.unique(owner * classes + y[rows.values], return_counts=True)
        return torch.from_numpy(np.stack([found // classes, found % classes, n], axis=1).astype(np.int64))
    parts = []
    for client in range(len(data)):
        count = data.train(client).counts(classes).cpu()
        cls = torch.nonzero(count)[:, 0]
        parts.append(torch.stack([torch.full_like(cls, client), cls, count[cls]], dim=1))
    return torch.cat(parts)


def most_holders(data: ClientData, classes: int) -> int:
    """Clients that train on the class which most have."""
    return int(torch.bincount(count_rows(data, classes)[:, 1], minlength=1).max())


def counts_of(rows: Tensor, client: int, classes: int) -> Tensor:
    """Samples [C] of each class that a client trained on."""
    own = rows[rows[:, 0] == client]
    return torch.zeros(classes, dtype=torch.int64).index_add(0, own[:, 1], own[:, 2])


def write_counts(folder: Path, rows: Tensor) -> None:
    """Write the file."""
    write_content(folder, FILE, add_checksum(to_bytes({"counts": rows})))


def read_counts(folder: Path) -> Tensor:
    """The rows that were written."""
    path = folder / FILE
    try:
        return of_bytes(strip_checksum(read_content(folder, FILE), path))["counts"]
    except (SafetensorError, KeyError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error
