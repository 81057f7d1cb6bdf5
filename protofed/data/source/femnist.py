"""FEMNIST from `femnist_writers.npz` in the folder PROTOFED_DATA; the owner of a row is its writer.

Caldas et al., *LEAF*, arxiv.org/abs/1812.01097. Keys x, y, writer, is_test; 62 classes in the order
0–9, A–Z, a–z. The background is white (255) as LEAF publishes it, other than in MNIST; `invert=true`
makes it black. Normalised with MNIST's 0.1307 and 0.3081 as FedProto does.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.options import option
from ..base import Dataset, sources
from ..cache import cached
from .common import ImageSource, as_dataset, data_file
from .mnist import MNIST_MEAN, MNIST_STD
from .npz import channels_first, read_arrays

CLASSES = string.digits + string.ascii_uppercase + string.ascii_lowercase
SUBSETS = {"all": CLASSES, "digits": string.digits, "letters": "abcdefghij"}


@sources.register("femnist")
@dataclass(frozen=True)
class Femnist(ImageSource):
    """FEMNIST by writer, 28×28 grey, white background."""

    classes: str = option("all", "all 62; digits; or letters (a to j, ten classes)", choices=tuple(SUBSETS))
    invert: bool = option(False, "black background, as in MNIST")

    def load(self) -> Dataset:
        path = data_file("femnist", "femnist_writers.npz")
        options = {"classes": self.classes, "invert": self.invert}
        arrays = cached("femnist", [path], options, lambda: self._decode(path))
        return self.finish(as_dataset("femnist", arrays, MNIST_MEAN, MNIST_STD))

    def _decode(self, path: Path) -> dict[str, np.ndarray]:
        raw = read_arrays(path, ("x", "y", "writer", "is_test"))
        names = SUBSETS[self.classes]
        new_id = np.array([names.find(c) for c in CLASSES])[raw["y"]]
        keep = _without_copies(raw["x"], raw["is_test"].astype(bool), np.flatnonzero(new_id >= 0))
        x = channels_first(raw["x"][keep], str(path))
        return {
            "x": 255 - x if self.invert else x,
            "y": new_id[keep],
            "test": raw["is_test"][keep].astype(bool),
            "owner": raw["writer"][keep].astype(np.int64),
            "classes": np.array(list(names)),
        }


def _without_copies(x: np.ndarray, test: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Of these rows the first of each image, training rows first: the published files hold some images
    twice, and some of those once for training and once for testing."""
    rows = rows[np.argsort(test[rows], kind="stable")]
    _, first = np.unique(x[rows].reshape(len(rows), -1), axis=0, return_index=True)
    return np.sort(rows[first])
