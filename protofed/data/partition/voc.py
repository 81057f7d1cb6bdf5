"""Power-law sizes and Dirichlet class mixes, for dense data by the one object class of an image.

*Prototype Guided Federated Learning of Visual Feature Representations* (VOC among 100 clients). Sizes have
density ∝ s^−γ on [s_min, 3.876·s_min], scaled to the number of images; that ratio reproduces the printed
mean 66.7 and deviation 25.7 for 6,665 images, the exact generator is unpublished. The class mix of client k
is q_k ∼ Dir(α); its images are drawn by it without replacement, renormalising over classes that have images
left; joined classes (`macro` of voc2012) are mixed as they were before. Only images with exactly one object
class (besides background, class 0) take part. The paper merges train and test rows (`pool=true`); 80 % of a
client's rows, at random, are then for training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from ...core.errors import DataError
from ...core.options import option
from ...core.rng import numpy_generator
from ..base import Dataset, Split, partitions
from ..labels import pixel_counts
from .dirichlet import cut_sizes
from .pooling import PoolingPartitioner
from .sorted_rows import SortedRows


@partitions.register("voc")
@dataclass(frozen=True)
class Voc(PoolingPartitioner):
    """Power-law sizes, Dirichlet class mixes; for segmentation."""

    also_called: ClassVar[Mapping[str, str]] = MappingProxyType({"beta": "alpha"})
    alpha: float = option(1.0, "concentration of the class mix", above=0)
    gamma: float = option(3.0, "exponent of the sizes", above=1)
    ratio: float = option(3.876, "largest size over smallest", low=1)
    single: bool = option(True, "only images with exactly one object class (dense data)")
    train: float = option(
        0.8, "share of a client's rows for training, with pool or without a test set", above=0, high=1
    )

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        rng = numpy_generator(seed, "partition", self.name)
        rows, tests = self.rows(dataset), np.flatnonzero(dataset.test)
        kind = dataset.kind if self.single else None
        if dataset.dense and self.single:
            single = (pixel_counts(dataset)[:, 1:] > 0).sum(axis=1) == 1 if kind is None else kind >= 0
            rows, tests = rows[single[rows]], tests[single[tests]]
        if len(rows) < 2 * clients:
            raise DataError(
                f"voc: {clients} clients need at least {2 * clients} images with one object class, "
                f"{dataset.name} has {len(rows)}; use fewer clients or single=false"
            )
        by_class = SortedRows(dataset, rows, rng, kind)
        sizes = self._sizes(len(rows), clients, rng)
        amounts = draw_mixes(sizes, by_class.counts, self.alpha, rng)
        return self.finish(dataset, by_class.deal(amounts), rng, tests)

    def _sizes(self, total: int, clients: int, rng: np.random.Generator) -> np.ndarray:
        """Inverse of the distribution function of the truncated power law, scaled to the total."""
        power = 1 - self.gamma
        draws = (1 - rng.random(clients) * (1 - self.ratio**power)) ** (1 / power)
        return cut_sizes(draws / draws.sum(), total)


def draw_mixes(sizes: np.ndarray, counts: np.ndarray, alpha: float, rng: np.random.Generator) -> np.ndarray:
    """[K, C] images per client and class; every round of a draw finishes a client or empties a class."""
    left = counts.copy()
    amounts = np.zeros((len(sizes), len(counts)), dtype=np.int64)
    mixes = np.zeros(amounts.shape)
    mixes[:, counts > 0] = rng.dirichlet(np.full((counts > 0).sum(), alpha), len(sizes))
    for client, size in enumerate(sizes):
        while (need := size - amounts[client].sum()) > 0:
            q = mixes[client] * (left > 0)
            q = q / q.sum() if q.sum() > 0 else (left > 0) / (left > 0).sum()
            taken = np.minimum(rng.multinomial(need, q), left)
            amounts[client] += taken
            left -= taken
    return amounts
