"""Options and steps that several sources share."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.errors import DataError
from ...core.options import option
from ...core.rng import numpy_generator
from ..base import Dataset, Source
from ..labels import row_labels

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMALISE = ("own", "unit", "signed", "imagenet")


@dataclass(frozen=True)
class ImageSource(Source):
    """A source with the options that every image set takes."""

    per_class: int | None = option(None, "at most this many training samples a class (the first ones)", low=1)
    normalise: str = option(
        "own",
        "own: as the set declares; unit: [0, 1]; signed: [-1, 1]; imagenet: ImageNet mean and std",
        choices=NORMALISE,
    )
    augment: str = option("own", "own: as the set declares; none; or parts such as crop4+flip+rotate30")

    def finish(self, dataset: Dataset) -> Dataset:
        """Apply the common options to what was read."""
        if self.per_class is not None:
            dataset = cap_classes(dataset, self.per_class)
        augment = {"own": dataset.augment, "none": ""}.get(self.augment, self.augment)
        return dataclasses.replace(normalised(dataset, self.normalise), augment=augment)


def normalised(dataset: Dataset, how: str) -> Dataset:
    """Replace the declared mean and std, unless `how` is "own"."""
    channels = dataset.shape[0]
    if how == "own":
        return dataset
    if how == "unit":
        return dataclasses.replace(dataset, mean=None, std=None)
    if how == "signed":
        return dataclasses.replace(dataset, mean=(0.5,) * channels, std=(0.5,) * channels)
    if channels != 3:
        raise DataError(f"{dataset.name}: normalise=imagenet needs 3 channels, the images have {channels}")
    return dataclasses.replace(dataset, mean=IMAGENET_MEAN, std=IMAGENET_STD)


def cap_classes(dataset: Dataset, per_class: int) -> Dataset:
    """Keep the first `per_class` training rows of each class (and domain); all test rows stay."""
    group = row_labels(dataset)
    if dataset.domain is not None:
        group = group + dataset.domain.astype(np.int64) * dataset.num_classes
    keep = dataset.test.copy()
    train = np.flatnonzero(~dataset.test)
    keep[train[rank_within(group[train]) < per_class]] = True
    return take_rows(dataset, np.flatnonzero(keep))


def take_rows(dataset: Dataset, rows: np.ndarray) -> Dataset:
    """The same dataset with these rows alone."""

    def pick(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else np.asarray(values[rows])

    return dataclasses.replace(
        dataset,
        x=np.asarray(dataset.x[rows]),
        y=np.asarray(dataset.y[rows]),
        test=dataset.test[rows],
        domain=pick(dataset.domain),
        owner=pick(dataset.owner),
    )


def rank_within(group: np.ndarray) -> np.ndarray:
    """Position of each element among those of its group, in order of appearance.

    >>> rank_within(np.array([5, 7, 5, 5, 7])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    first = np.searchsorted(ordered, ordered, side="left")
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - first
    return rank


def stratified_test(group: np.ndarray, fraction: float, name: str) -> np.ndarray:
    """[N] bool: a fixed random share of each group (class) is marked as test.

    Used where a set has no published split. The choice depends on `name` alone, never on the run's seed.
    """
    shuffled = numpy_generator("test split", name).permutation(len(group))
    rank = np.empty(len(group), dtype=np.int64)
    rank[shuffled] = rank_within(group[shuffled])
    count = np.bincount(group)[group]
    return rank < np.round(fraction * count)


def data_folder(name: str, needs: str) -> Path:
    """The folder that PROTOFED_DATA names."""
    folder = os.environ.get("PROTOFED_DATA", "")
    if not folder:
        raise DataError(
            f"{name}: the environment variable PROTOFED_DATA is not set; "
            f"set it to the folder that holds {needs}"
        )
    if not Path(folder).is_dir():
        raise DataError(f"{name}: PROTOFED_DATA names {folder}, which is not a folder")
    return Path(folder)
