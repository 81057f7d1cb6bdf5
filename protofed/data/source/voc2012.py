"""Pascal VOC 2012 segmentation from `VOC2012/` in the folder PROTOFED_DATA, as unpacked.

Everingham et al., IJCV 2010. Needs JPEGImages, SegmentationClass and ImageSets/Segmentation; train.txt
lists the training rows and val.txt the test rows, 2,913 images in all. ProtoMargin's 6,665 images with one
class need the longer list with the masks of Hariharan et al. (ICCV 2011): `names=trainaug`, or the path of
a list, and `masks=SegmentationClassAug`. Border pixels (255) are void. `macro=true` joins the
20 classes to person, vehicles, household and animals, as *Prototype Guided Federated Learning of Visual
Feature Representations* does; the partition `voc` still chooses images and mixes by the 20, so that the split
is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.errors import DataError
from ...core.options import option
from ..base import VOID, Dataset, sources
from ..cache import cached
from ..images import decode_images, decode_masks
from .common import IMAGENET_MEAN, IMAGENET_STD, ImageSource, as_dataset, data_file, imported

CLASSES = [
    "background",
    "aeroplane",
    "bicycle",
    "bird",
    "boat",
    "bottle",
    "bus",
    "car",
    "cat",
    "chair",
    "cow",
    "table",
    "dog",
    "horse",
    "motorbike",
    "person",
    "plant",
    "sheep",
    "sofa",
    "train",
    "tv",
]
MACRO = {
    "background": ("background",),
    "person": ("person",),
    "vehicles": ("aeroplane", "bicycle", "boat", "bus", "car", "motorbike", "train"),
    "household": ("bottle", "chair", "table", "plant", "sofa", "tv"),
    "animals": ("bird", "cat", "cow", "dog", "horse", "sheep"),
}


@sources.register("voc2012")
@dataclass(frozen=True)
class Voc2012(ImageSource):
    """Pascal VOC 2012 with masks, 20 classes or 4 macro classes."""

    size: int = option(256, "resize images and masks to this many pixels square", low=8)
    macro: bool = option(False, "join the classes to person, vehicles, household, animals")
    names: str = option("train", "training images: a list in ImageSets/Segmentation, or a .txt file")
    masks: str = option("SegmentationClass", "folder of the masks in VOC2012/")

    def load(self) -> Dataset:
        imported("PIL", "data", "voc2012")
        lists = [_list_file(self.names), _list_file("val")]
        options = {"size": self.size, "macro": self.macro, "masks": self.masks, "kinds": self.macro}
        arrays = cached("voc2012", lists, options, lambda: self._decode(lists))
        return self.finish(as_dataset("voc2012", arrays, IMAGENET_MEAN, IMAGENET_STD))

    def _decode(self, lists: list[Path]) -> dict[str, np.ndarray]:
        root = lists[1].parents[2]
        names = [_names(path) for path in lists]
        every = [name for part in names for name in part]
        if not every:
            raise DataError(f"voc2012: {lists[0]} and {lists[1]} name no images")
        if both := sorted(set(names[0]) & set(names[1])):
            raise DataError(
                f"voc2012: {len(both)} images, such as {both[0]}, stand in {lists[0]} and in {lists[1]}, "
                "which are for training and for tests; take them out of one"
            )
        images = [(f"{name}.jpg", root / "JPEGImages" / f"{name}.jpg") for name in every]
        masks = [(f"{name}.png", root / self.masks / f"{name}.png") for name in every]
        read = decode_masks(masks, self.size)
        return {
            "x": decode_images(images, self.size, channels=3),
            "y": self._labels(read),
            **({"kind": only_class(read)} if self.macro else {}),
            "test": np.arange(len(every)) >= len(names[0]),
            "classes": np.array(list(MACRO) if self.macro else CLASSES),
        }

    def _labels(self, masks: np.ndarray) -> np.ndarray:
        table = np.full(256, VOID, dtype=np.int16)
        table[: len(CLASSES)] = np.arange(len(CLASSES))
        if self.macro:
            of = {name: group for group, names in enumerate(MACRO.values()) for name in names}
            table[: len(CLASSES)] = [of[name] for name in CLASSES]
        return np.asarray(table[masks])


def only_class(masks: np.ndarray) -> np.ndarray:
    """[N] the one of the 20 classes that an image shows; -1 where there are none or several."""
    shown = np.stack([(masks == number).any(axis=(1, 2)) for number in range(1, len(CLASSES))], axis=1)
    return np.where(shown.sum(axis=1) == 1, shown.argmax(axis=1) + 1, -1)


def _list_file(written: str) -> Path:
    """The file of a list: of VOC's own by their name, else a path."""
    if not written.endswith(".txt"):
        return data_file("voc2012", f"VOC2012/ImageSets/Segmentation/{written}.txt")
    path = Path(written).expanduser()
    if not path.is_file():
        raise DataError(f"voc2012: names={written}: no such file")
    return path


def _names(path: Path) -> list[str]:
    """Names of images, one a line; of lines with the paths of image and mask, the image's."""
    return [Path(line.split()[0]).stem for line in path.read_text().splitlines() if line.strip()]
