"""Clients' samples as engines want them: from a split dataset, or from tensors that the user brings."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..core.data import LocalData, without_samples
from .augment import read_augmentation
from .loader import Loader

CACHE_BYTES = 2 * 1024**3


class SplitData:
    """Clients of a partitioned dataset. Tensors are made when asked for; the latest stay in a cache."""

    def __init__(self, loader: Loader, cache_bytes: int = CACHE_BYTES):
        self.loader = loader
        spec = loader.dataset.augment
        self._augment = read_augmentation(spec, loader.black) if spec else None
        self._sizes = loader.split.train.sizes
        self._cache: OrderedDict[tuple[str, int], LocalData] = OrderedDict()
        self._room = cache_bytes

    def __len__(self) -> int:
        return self.loader.clients

    def size(self, client: int) -> int:
        return int(self._sizes[client])

    def train(self, client: int) -> LocalData:
        return self._get("train", client)

    def test(self, client: int) -> LocalData:
        return self._get("test", client)

    def validation(self, client: int) -> LocalData:
        return self._get("validation", client)

    def _get(self, part: str, client: int) -> LocalData:
        key = (part, client)
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        x, y = getattr(self.loader, part)(client)
        data = LocalData(channels_last(x), y, self._augment if part == "train" else None)
        self._cache[key] = data
        self._room -= _nbytes(data)
        while self._room < 0 and len(self._cache) > 1:
            _, old = self._cache.popitem(last=False)
            self._room += _nbytes(old)
        return data


class OwnData:
    """Clients whose tensors were given."""

    def __init__(
        self, train: Sequence[LocalData], test: Sequence[LocalData], validation: Sequence[LocalData] = ()
    ):
        self._train, self._test, self._validation = (
            [replace(data, x=channels_last(data.x)) for data in part] for part in (train, test, validation)
        )

    def __len__(self) -> int:
        return len(self._train)

    def size(self, client: int) -> int:
        return len(self._train[client])

    def train(self, client: int) -> LocalData:
        return self._train[client]

    def test(self, client: int) -> LocalData:
        return self._test[client]

    def validation(self, client: int) -> LocalData:
        return self._validation[client] if self._validation else without_samples(self._train[client])


def channels_last(x: Tensor) -> Tensor:
    """Images in the layout in which CPUs convolve and pool fastest; other tensors as they are."""
    return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x


def _nbytes(data: LocalData) -> int:
    return data.x.nbytes + data.y.nbytes
