"""Digit-5: five domains of digits, from the folder PROTOFED_DATA.

Peng et al., *Moment Matching for Multi-Source Domain Adaptation*, ICCV 2019. Files: mnist.npz and
digit5/{usps,svhn,synth,mnist_m}.npz. All are resized to one size (bilinear with antialiasing) and
given three channels (grey is repeated), and scaled to [−1, 1]. FedPLVM's code has size=64, FedPLCC
prints none; the default here is 32, the size of SVHN's own images, at a third of the cost. The recipes
have 64.

Which copies of SVHN, MNIST-M and the synthetic digits the files hold decides whether numbers compare
with published ones. MNIST-M may be built from MNIST's test images: then its training rows show digits
that the MNIST domain tests on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.options import option
from ..base import Dataset, sources
from ..cache import cached
from ..grouped import rank_within
from ..images import resize
from .common import ImageSource, as_dataset, data_file
from .npz import KEYS, read_arrays, table

DOMAINS = ("mnist", "usps", "svhn", "synth", "mnist_m")


@sources.register("digit5")
@dataclass(frozen=True)
class Digit5(ImageSource):
    """MNIST, USPS, SVHN, synthetic digits and MNIST-M as five domains."""

    size: int = option(32, "resize images to this many pixels square", low=8)

    def load(self) -> Dataset:
        names = ["mnist.npz", *(f"digit5/{domain}.npz" for domain in DOMAINS[1:])]
        files = [data_file("digit5", name) for name in names]
        options = {"size": self.size, "per_class": self.per_class}
        arrays = cached("digit5", files, options, lambda: self._decode(files))
        return self.finish(as_dataset("digit5", arrays, (0.5,) * 3, (0.5,) * 3))

    def _decode(self, files: list[Path]) -> dict[str, np.ndarray]:
        parts = [self._domain(path) for path in files]
        made = {key: np.concatenate([part[key] for part in parts]) for key in ("x", "y", "test")}
        made["domain"] = np.repeat(np.arange(len(parts)), [len(part["y"]) for part in parts])
        return {**made, "domains": np.array(DOMAINS), "classes": np.arange(10).astype(str)}

    def _domain(self, path: Path) -> dict[str, np.ndarray]:
        part = table(read_arrays(path, KEYS), str(path), 10)
        if self.per_class is not None:  # before resizing, which costs most
            keep = part["test"] | (rank_within(part["y"] + 10 * part["test"]) < self.per_class)
            part = {key: part[key][keep] for key in ("x", "y", "test")}
        x = resize(part["x"], self.size)
        return {**part, "x": np.broadcast_to(x, (len(x), 3, self.size, self.size))}
