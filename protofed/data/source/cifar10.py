"""CIFAR-10 from `cifar10/` in the folder PROTOFED_DATA (train.parquet and test.parquet).

Krizhevsky 2009. As FedProto does: random crop with 4 pixels of padding and flip, ImageNet mean and
std. For FedTGP's setting write `cifar10:normalise=signed,augment=none`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base import Dataset, sources
from ..cache import cached
from .common import IMAGENET_MEAN, IMAGENET_STD, ImageSource, as_dataset, data_file
from .parquet import Parquet


@sources.register("cifar10")
@dataclass(frozen=True)
class Cifar10(ImageSource):
    """CIFAR-10, 32×32 colour, 50,000 / 10,000."""

    def load(self) -> Dataset:
        files = [
            data_file("cifar10", f"cifar10/{p}.parquet", "use torchvision:CIFAR10") for p in ("train", "test")
        ]
        reader = Parquet(path=str(files[0].parent))
        arrays = cached("cifar10", files, {}, lambda: reader.decode(files[:1], files[1:], "cifar10"))
        return self.finish(as_dataset("cifar10", arrays, IMAGENET_MEAN, IMAGENET_STD, "crop4+flip"))
