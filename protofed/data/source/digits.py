"""scikit-learn's handwritten digits: 1,797 images of 8×8, ten classes. Needs no download.

Kaynak, *Methods of combining multiple classifiers…* (UCI, Optical Recognition of Handwritten
Digits). The set has no split: a fixed stratified quarter is marked as test.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base import Dataset, sources
from .common import ImageSource
from .stratify import stratified_test


@sources.register("digits")
@dataclass(frozen=True)
class Digits(ImageSource):
    """scikit-learn's 8×8 digits, offline; a fixed quarter is the test set."""

    def load(self) -> Dataset:
        from sklearn.datasets import load_digits

        raw = load_digits()
        x = (raw.images / 16.0).astype(np.float32)[:, None]
        y = raw.target.astype(np.int64)
        names = tuple(str(digit) for digit in range(10))
        return self.finish(Dataset("digits", x, y, stratified_test(y, 0.25, "digits"), names))
