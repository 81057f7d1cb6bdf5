"""Hugging Face datasets by name: hf:NAME. Needs the package `datasets` and, the first time, a network.

Without them download the set's parquet files by hand and read them with parquet:PATH.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.errors import DataError
from ...core.options import option
from ..base import Dataset, sources
from ..images import decode_images
from .common import ImageSource, as_dataset
from .parquet import IMAGE_COLUMNS, TEST_NAMES, ids_of
from .stratify import stratified_test

REMEDY = "download its parquet files and use parquet:PATH instead"


@sources.register("hf")
@dataclass(frozen=True)
class HuggingFace(ImageSource):
    """hf:NAME, through the package datasets."""

    positional: ClassVar[str] = "set"
    set: str = option("", "name on the hub, such as uoft-cs/cifar10")
    label: str = option("label", "the label column")
    size: int | None = option(None, "resize images to this many pixels square", low=1)

    def load(self) -> Dataset:
        parts = self._fetch()
        train, test = parts["train"], next((parts[n] for n in TEST_NAMES if n in parts), None)
        rows = [train] if test is None else [train, test]
        image = next((c for c in IMAGE_COLUMNS if c in train.column_names), None)
        if image is None or self.label not in train.column_names:
            raise DataError(f"hf: {self.set} lacks an image or {self.label!r} column: {train.column_names}")
        blobs = [
            (f"{self.set} row {i}", r["bytes"]) for part in rows for i, r in enumerate(_raw(part, image))
        ]
        labels = [value for part in rows for value in part[self.label]]
        y, classes = ids_of(labels, getattr(train.features[self.label], "names", None), self.set)
        is_test = np.arange(len(y)) >= len(train) if test is not None else stratified_test(y, 0.25, self.set)
        arrays = {"x": decode_images(blobs, self.size), "y": y, "test": is_test, "classes": classes}
        return self.finish(as_dataset(self.set.rsplit("/", 1)[-1], arrays))

    def _fetch(self) -> Any:
        try:
            import datasets
        except ImportError as error:
            raise DataError(
                f"hf: the package datasets is not installed; pip install it, or {REMEDY}"
            ) from error
        try:
            parts = datasets.load_dataset(self.set)
        except Exception as error:  # the package raises its own and its network layer's errors
            raise DataError(f"hf: {self.set!r} cannot be fetched ({error}); {REMEDY}") from error
        if "train" not in parts:
            raise DataError(f"hf: {self.set!r} has no part train, only {', '.join(parts)}")
        return parts


def _raw(part: Any, image: str) -> Any:
    import datasets

    return part.cast_column(image, datasets.Image(decode=False))[image]
