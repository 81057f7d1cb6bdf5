"""Options and steps that several sources share."""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from ...core.errors import DataError
from ...core.options import option
from ..augment import read_augmentation
from ..base import Dataset, Source
from ..check import check_shape
from ..grouped import rank_within
from ..labels import row_labels

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMALISE = ("own", "unit", "signed", "imagenet")


@dataclass(frozen=True)
class ImageSource(Source):
    """A source with the options that every image set takes."""

    per_class: int | None = option(
        None, "at most this many training samples a class in all (the first ones); test rows stay", low=1
    )
    normalise: str = option(
        "own",
        "own: as the set declares; unit: [0, 1]; signed: [-1, 1]; imagenet: ImageNet mean and std",
        choices=NORMALISE,
    )
    augment: str = option("own", "own: as the set declares; none; or parts such as crop4+flip+rotate30")

    def finish(self, dataset: Dataset) -> Dataset:
        """Apply the common options to what was read."""
        check_shape(dataset)
        if self.per_class is not None:
            dataset = dataclasses.replace(cap_classes(dataset, self.per_class), per_class=self.per_class)
        augment = {"own": dataset.augment, "none": ""}.get(self.augment, self.augment)
        read_augmentation(augment)  # refuses what it does not know
        if augment and dataset.dense:
            raise DataError(
                f"{dataset.name}: augment={augment} would move images and not their masks; use augment=none"
            )
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
    return dataset if keep.all() else take_rows(dataset, np.flatnonzero(keep))


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
        kind=pick(dataset.kind),
    )


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


def data_file(name: str, relative: str, instead: str = "") -> Path:
    """A file in the folder that PROTOFED_DATA names; `instead` says what else would do."""
    path = data_folder(name, relative) / relative
    if not path.is_file():
        raise DataError(
            f"{name}: {path} does not exist; put it there" + (f", or {instead}" if instead else "")
        )
    return path


def as_dataset(
    name: str,
    arrays: Mapping[str, np.ndarray],
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    augment: str = "",
) -> Dataset:
    """A dataset of decoded arrays. x and masks may stay memory-mapped; the small columns are read."""

    def column(key: str) -> np.ndarray | None:
        return np.array(arrays[key]) if key in arrays else None

    y = arrays["y"] if arrays["y"].ndim > 1 else np.array(arrays["y"], dtype=np.int64)
    return Dataset(
        name=name,
        x=arrays["x"],
        y=y,
        test=np.array(arrays["test"], dtype=bool),
        classes=tuple(str(c) for c in arrays["classes"]),
        domain=column("domain"),
        domains=tuple(str(d) for d in arrays.get("domains", ())),
        owner=column("owner"),
        kind=column("kind"),
        owners=tuple(str(name) for name in arrays.get("owners", ())),
        mean=mean,
        std=std,
        augment=augment,
    )


def imported(module: str, extra: str, user: str) -> ModuleType:
    """An optional dependency, or DataError with the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DataError(f"{user} needs {module}: pip install 'protofed[{extra}]' ({error})") from error
