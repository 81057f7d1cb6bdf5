"""Randomness: every random number comes from a key such as (seed, round, client, purpose).

Nothing random is ever stored: a resumed run, another engine or another machine derives the same
numbers from the same key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

Key = int | str | None


def key_seed(*key: Key) -> int:
    """A 63-bit seed from a key.

    >>> key_seed(0, 1, "batches") == key_seed(0, 1, "batches")
    True
    >>> key_seed(0, 1, "batches") == key_seed(0, 11, "batches")
    False
    """
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def torch_generator(*key: Key) -> torch.Generator:
    """A CPU generator for this key."""
    generator = torch.Generator()
    generator.manual_seed(key_seed(*key))
    return generator


def numpy_generator(*key: Key) -> np.random.Generator:
    """A NumPy generator for this key."""
    return np.random.default_rng(key_seed(*key))


def seed_torch(seed: int) -> None:
    """Seed torch's global generators, as `torch.manual_seed` does.

    Where a device is absent, `torch.manual_seed` notes a stack trace for it at every call, in a list that
    grows: milliseconds for each client of a round.
    """
    torch.default_generator.manual_seed(seed)
    if torch.accelerator.is_available():
        torch.manual_seed(seed)


@contextmanager
def seeded(*key: Key) -> Iterator[None]:
    """Run code that only knows torch's global generator (module constructors), and restore it after."""
    with torch.random.fork_rng(devices=[]):
        seed_torch(key_seed(*key))
        yield
