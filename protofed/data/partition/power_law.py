"""Two digits per client, amounts by a power law: MNIST among 1000 clients.

Li et al., *FedProx*, MLSys 2020, as used by *Prototype Guided Federated Learning of Visual Feature
Representations*, which merge train and test rows first (`pool=true`). Client u holds the classes u and
u+1 (mod C): first 5 rows of each; then, with q ∼ lognormal(0, 2) of shape (C, K/C, 2), normalised per
class times the rows left, int(q[class, ⌊u/C⌋, j]) further rows, in row order. With `pool`, 80 % of a
client's rows are for training.

The released code skips a client when a class is exhausted. Amounts are rounded down and sum to at most
what is left, so that never happens; at most one row a client and class is lost by rounding. MNIST's 70,000
rows among 1,000 clients so give 68,000 to 70,000 samples whatever the draw (FedProx prints 69,035), never
the 61,676 that ProtoMargin prints: what it left out is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.errors import ConfigError, DataError
from ...core.options import option
from ...core.rng import numpy_generator
from ..base import Dataset, Split, partitions
from ..grouped import rank_within, total_before
from .pooling import PoolingPartitioner
from .sorted_rows import SortedRows


@partitions.register("power_law")
@dataclass(frozen=True)
class PowerLaw(PoolingPartitioner):
    """Two neighbouring classes per client, amounts by a power law."""

    ways: int = option(2, "classes per client", low=1)
    shots: int = option(5, "rows of each class that every client gets first", low=1)
    sigma: float = option(2.0, "spread of the log-normal amounts", low=0)
    train: float = option(
        0.8, "share of a client's rows for training, with pool or without a test set", above=0, high=1
    )

    def split(self, dataset: Dataset, clients: int, seed: int) -> Split:
        classes = dataset.num_classes
        if self.ways > classes:
            raise ConfigError(f"power_law: ways={self.ways} but the data has {classes} classes")
        rng = numpy_generator(seed, "partition", self.name)
        by_class = SortedRows(dataset, self.rows(dataset))
        client, j = np.repeat(np.arange(clients), self.ways), np.tile(np.arange(self.ways), clients)
        cls = (client + j) % classes
        base = np.bincount(cls, minlength=classes) * self.shots
        if (short := np.flatnonzero(base > by_class.counts)).size:
            raise DataError(
                f"power_law: {clients} clients need {base[short[0]]} rows of class {short[0]}, which has "
                f"{by_class.counts[short[0]]}; use fewer clients or shots"
            )
        q = rng.lognormal(0, self.sigma, (classes, -(-clients // classes), self.ways))
        q *= ((by_class.counts - base) / q.sum(axis=(1, 2)))[:, None, None]
        extra = q[cls, client // classes, j].astype(np.int64)
        rows = by_class.cut(
            np.tile(client, 2),
            np.tile(cls, 2),
            np.concatenate([rank_within(cls) * self.shots, base[cls] + total_before(cls, extra)]),
            np.concatenate([np.full(len(cls), self.shots), extra]),
            clients,
        )
        return self.finish(dataset, rows, rng)
