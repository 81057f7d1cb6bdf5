"""Oxford Flowers from `flowers102_64/` in the folder PROTOFED_DATA (train.parquet, test.parquet).

Nilsback and Zisserman 2008, resized to 64×64 and scaled to [−1, 1] as FedTGP does. Whichever images
and split the files hold are used; a subset of the official ones is not comparable with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.options import option
from ..base import Dataset, sources
from ..cache import cached
from .common import ImageSource, as_dataset, data_file
from .parquet import Parquet


@sources.register("flowers102")
@dataclass(frozen=True)
class Flowers102(ImageSource):
    """Oxford Flowers, 102 classes, 64×64 colour."""

    size: int = option(64, "resize images to this many pixels square", low=1)

    def load(self) -> Dataset:
        instead = "use folder:PATH with your own copy"
        files = [data_file("flowers102", f"flowers102_64/{p}.parquet", instead) for p in ("train", "test")]
        reader = Parquet(path=str(files[0].parent), size=self.size)
        options = {"size": self.size}
        arrays = cached(
            "flowers102", files, options, lambda: reader.decode(files[:1], files[1:], "flowers102")
        )
        arrays = {**arrays, "classes": np.arange(102).astype(str)}
        return self.finish(as_dataset("flowers102", arrays, (0.5,) * 3, (0.5,) * 3))
