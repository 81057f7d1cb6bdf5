"""MNIST and Fashion-MNIST from `mnist.npz` and `fashion_mnist.npz` in the folder PROTOFED_DATA.

LeCun et al. 1998; Xiao et al., arxiv.org/abs/1708.07747. MNIST is normalised with 0.1307 and 0.3081
(FedProto), Fashion-MNIST to [−1, 1] (FedTGP); `normalise` changes that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base import Dataset, sources
from .common import ImageSource, as_dataset, data_file
from .npz import cached_npz

MNIST_MEAN, MNIST_STD = (0.1307,), (0.3081,)
FASHION = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")


@sources.register("mnist")
@dataclass(frozen=True)
class Mnist(ImageSource):
    """MNIST, 28×28 grey, 60,000 / 10,000."""

    def load(self) -> Dataset:
        path = data_file("mnist", "mnist.npz", "use torchvision:MNIST")
        return self.finish(as_dataset("mnist", cached_npz(path, 10), MNIST_MEAN, MNIST_STD))


@sources.register("fashion_mnist")
@dataclass(frozen=True)
class FashionMnist(ImageSource):
    """Fashion-MNIST, 28×28 grey, 60,000 / 10,000."""

    def load(self) -> Dataset:
        path = data_file("fashion_mnist", "fashion_mnist.npz", "use torchvision:FashionMNIST")
        arrays = {**cached_npz(path, 10), "classes": np.array(FASHION)}
        return self.finish(as_dataset("fashion_mnist", arrays, (0.5,), (0.5,)))
