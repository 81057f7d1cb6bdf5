"""Predictions for new samples, with the names of the classes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Predicted:
    """`scores` [N, C] (dense: [N, C, H, W]): the largest wins. Logits under the modes of classifiers, minus
    the distance under those of prototypes; −inf for a class that the mode does not choose from."""

    classes: tuple[str, ...]
    mode: str
    scores: np.ndarray = field(repr=False)

    @property
    def labels(self) -> np.ndarray:
        """[N] numbers of the classes."""
        return np.asarray(self.scores.argmax(1))

    @property
    def names(self) -> np.ndarray:
        """[N] names of the classes."""
        return np.asarray(np.array(self.classes)[self.labels])

    def __len__(self) -> int:
        return len(self.scores)


@dataclass(frozen=True)
class Prototypes:
    """Global prototypes: `rows` [J, D], `names` [J]. A class that has none has no row; some have several."""

    rows: np.ndarray = field(repr=False)
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.rows, dtype=dtype)  # type: ignore[call-overload, no-any-return]
