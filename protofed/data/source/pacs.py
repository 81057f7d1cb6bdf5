"""PACS from `pacs64/data.parquet` in the folder PROTOFED_DATA: four domains, seven classes.

Li et al., *Deeper, Broader and Artier Domain Generalization*, ICCV 2017. The set has no test split
here: a fixed fifth of each class of each domain is marked as test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.options import option
from ..base import Dataset, sources
from ..cache import cached
from .common import IMAGENET_MEAN, IMAGENET_STD, ImageSource, as_dataset, data_file
from .parquet import Parquet
from .stratify import stratified_test


@sources.register("pacs")
@dataclass(frozen=True)
class Pacs(ImageSource):
    """PACS: art painting, cartoon, photo, sketch; 64×64 colour, 9,991 images."""

    size: int = option(64, "resize images to this many pixels square", low=1)

    def load(self) -> Dataset:
        path = data_file("pacs", "pacs64/data.parquet", "use folder:PATH,domains=true with your own copy")
        reader = Parquet(path=str(path), size=self.size)
        options = {"size": self.size}
        arrays = cached("pacs", [path], options, lambda: _with_test(reader.decode([path], [], "pacs")))
        return self.finish(as_dataset("pacs", arrays, IMAGENET_MEAN, IMAGENET_STD))


def _with_test(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    group = arrays["domain"] * len(arrays["classes"]) + arrays["y"]
    return {**arrays, "test": stratified_test(group, 0.2, "pacs")}
