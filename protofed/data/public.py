"""Public samples: inputs of a data set that nobody owns, their labels unused."""

from __future__ import annotations

import numpy as np
import torch

from ..core.data import LocalData
from ..core.errors import ConfigError
from ..core.rng import numpy_generator
from . import load
from .loader import normalise


def public_samples(
    spec: str, most: int, seed: int, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> LocalData:
    """Up to so many samples, drawn from the seed. Inputs must have the shape of the clients' own."""
    dataset = load(spec)
    if dataset.shape != shape:
        raise ConfigError(
            f"public data {spec} has inputs {list(dataset.shape)}, but the clients have {list(shape)}; "
            "choose data of the same shape"
        )
    total = len(dataset.x)
    rows = np.sort(numpy_generator(seed, "public rows").choice(total, min(most, total), replace=False))
    x = normalise(torch.from_numpy(np.asarray(dataset.x[rows])).to(device), dataset, dtype)
    unknown = torch.full(np.asarray(dataset.y[rows]).shape, -1, dtype=torch.int64, device=device)
    return LocalData(x, unknown)
