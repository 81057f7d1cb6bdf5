"""Tables of scikit-learn: sklearn:wine. They come with the package; nothing is downloaded.

`covtype` is read only where scikit-learn has it on this machine already. No set has a split of its own: a
stratified share becomes test, drawn from `split`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.errors import DataError, unknown
from ...core.options import option
from ..base import Dataset, Source, sources
from ..inputs import InputRule, ready
from ..table import number_columns
from .stratify import stratified_test

SETS = ("iris", "wine", "breast_cancer", "digits", "covtype")
NUMBERS = ("diabetes", "linnerud", "california_housing")  # predict numbers


@sources.register("sklearn")
@dataclass(frozen=True)
class Sklearn(Source):
    """sklearn:NAME, a table that comes with scikit-learn: iris, wine, breast_cancer, digits, covtype."""

    positional: ClassVar[str] = "set"
    set: str = option("wine", f"one of {', '.join(SETS)}")
    standardise: bool = option(True, "scale features by mean and standard deviation of the training rows")
    test_share: float = option(0.25, "share of each class that is for testing", above=0, below=1)
    split: int = option(0, "number of the random stratified split into training and test rows", low=0)

    def load(self) -> Dataset:
        raw = _read(self.set)
        y = np.unique(raw.target, return_inverse=True)[1].astype(np.int64)
        names = [str(name) for name in getattr(raw, "target_names", np.unique(raw.target))]
        if len(names) != len(np.unique(y)):  # covtype: its classes are numbers
            names = [str(name) for name in np.unique(raw.target)]
        features = [str(name) for name in raw.feature_names]
        test = stratified_test(y, self.test_share, f"sklearn {self.set} {self.split}")
        columns = number_columns(raw.data, features, ~test, self.standardise)
        rule = InputRule((len(features),), columns=columns, reading={"kind": self.name})
        x = ready(np.asarray(raw.data), rule)
        note = f"{self.set}: features are standardised by mean and deviation of the training rows"
        notes = (note,) if self.standardise else ()
        return Dataset(self.set, x, y, test, tuple(names), rules=(rule,), notes=notes)


def _read(name: str) -> Any:
    from sklearn import datasets

    if name in NUMBERS:
        raise DataError(f"sklearn:{name} predicts numbers, not classes; choose one of {', '.join(SETS)}")
    if name not in SETS:
        raise DataError(f"sklearn: {unknown('set', name, SETS)}")
    if name != "covtype":
        return getattr(datasets, f"load_{name}")()
    try:
        return datasets.fetch_covtype(download_if_missing=False)
    except OSError as error:
        raise DataError(
            "sklearn:covtype is not on this machine, and nothing is downloaded here; get it once with "
            "sklearn.datasets.fetch_covtype(), which needs the internet"
        ) from error
