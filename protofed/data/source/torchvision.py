"""Sets that torchvision can fetch: torchvision:CIFAR100 and the like. Needs a network the first time.

Read from `torchvision/` in the folder PROTOFED_DATA if that exists; otherwise kept in the cache.
PROTOFED_DATA itself is never written to.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...core.errors import ConfigError, DataError, unknown
from ...core.options import option
from ..base import Dataset, sources
from ..cache import cache_folder
from .common import ImageSource, as_dataset
from .npz import channels_first

NAMES = ("MNIST", "FashionMNIST", "KMNIST", "CIFAR10", "CIFAR100", "SVHN", "STL10")


@sources.register("torchvision")
@dataclass(frozen=True)
class Torchvision(ImageSource):
    """torchvision:NAME, downloaded when it is not there."""

    positional: ClassVar[str] = "set"
    set: str = option("", f"one of {', '.join(NAMES)}")
    download: bool = option(True, "fetch what is missing")

    def load(self) -> Dataset:
        if self.set not in NAMES:
            raise ConfigError(f"data torchvision: {unknown('set', self.set, NAMES)}")
        root = _root()
        train, test = self._part(root, True), self._part(root, False)
        x = np.concatenate([train[0], test[0]])
        arrays = {
            "x": channels_first(x, self.set),
            "y": np.concatenate([train[1], test[1]]),
            "test": np.arange(len(x)) >= len(train[0]),
            "classes": train[2],
        }
        return self.finish(as_dataset(self.set.lower(), arrays, *_signed(arrays["x"])))

    def _part(self, root: Path, train: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from ...core.torchvision_shim import import_torchvision

        made = getattr(import_torchvision().datasets, self.set)
        chosen = (
            {"split": "train" if train else "test"} if self.set in ("SVHN", "STL10") else {"train": train}
        )
        try:
            raw = made(root=str(root), download=self.download and root.parent == cache_folder(), **chosen)
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"torchvision: {self.set} is not in {root} and could not be fetched "
                f"({str(error).splitlines()[0]}); on a machine with a network run "
                f"python -c \"import torchvision; torchvision.datasets.{self.set}('{root}', download=True)\" "
                "and copy the folder"
            ) from error
        return _arrays(raw)


def _root() -> Path:
    given = os.environ.get("PROTOFED_DATA")
    if given and (Path(given) / "torchvision").is_dir():
        return Path(given) / "torchvision"
    return cache_folder() / "torchvision"


def _arrays(raw: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.asarray(raw.data)
    y = np.asarray(raw.targets if hasattr(raw, "targets") else raw.labels).astype(np.int64)
    names = getattr(raw, "classes", None) or [str(c) for c in range(int(y.max()) + 1)]
    return x, y, np.asarray(names)


def _signed(x: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    half = (0.5,) * x.shape[1]
    return half, half
