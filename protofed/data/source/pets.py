"""Oxford-IIIT pets from `oxford_pets_seg96/` in the folder PROTOFED_DATA: masks, species, breeds.

Parkhi et al., *Cats and Dogs*, CVPR 2012. Columns image, mask, label (37 breeds), species (0 cat,
1 dog). The masks hold 1 pet, 2 background, 3 border; here background is 0 and the border is void.
`species_mask` and `breed_mask` give the pet's pixels the class of its species or breed, so that
class mixes can differ between clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.options import option
from ..base import VOID, Dataset, sources
from ..cache import cached
from ..images import decode_images, decode_masks
from .common import IMAGENET_MEAN, IMAGENET_STD, ImageSource, as_dataset, data_file
from .parquet import read_files

SPECIES = ("cat", "dog")
BREEDS = 37
LABELS = ("mask", "species_mask", "breed_mask", "species", "breed")


@sources.register("pets")
@dataclass(frozen=True)
class Pets(ImageSource):
    """Oxford pets: segmentation masks (default), or species or breed to classify."""

    label: str = option("mask", "what to predict", choices=LABELS)
    size: int = option(96, "resize images and masks to this many pixels square", low=8)

    def load(self) -> Dataset:
        files = [data_file("pets", f"oxford_pets_seg96/{part}.parquet") for part in ("train", "test")]
        options = {"label": self.label, "size": self.size}
        arrays = cached("pets", files, options, lambda: self._decode(files))
        return self.finish(as_dataset("pets", arrays, IMAGENET_MEAN, IMAGENET_STD))

    def _decode(self, files: list[Path]) -> dict[str, np.ndarray]:
        columns, _ = read_files(files, "label", {"image", "mask", "label", "species"})
        species, breed = np.asarray(columns["species"]), np.asarray(columns["label"])
        ids = {"mask": np.zeros_like(breed), "species": species, "breed": breed}[self.label.split("_mask")[0]]
        names = {"mask": ("pet",), "species": SPECIES, "breed": tuple(f"breed {i}" for i in range(BREEDS))}
        classes = names[self.label.split("_mask")[0]]
        y: np.ndarray = ids
        if self.label.endswith("mask"):
            y, classes = class_masks(decode_masks(columns["mask"], self.size), ids), ("background", *classes)
        return {
            "x": decode_images(columns["image"], self.size, channels=3),
            "y": y,
            "test": np.asarray(columns["file"]) > 0,
            "classes": np.array(classes),
        }


def class_masks(masks: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """[N, H, W] int16: 0 background, 1 + id on the pet, void on the border."""
    pet = (ids + 1).astype(np.int16)[:, None, None]
    return np.where(masks == 1, pet, np.where(masks == 2, np.int16(0), np.int16(VOID)))
