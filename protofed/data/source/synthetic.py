"""LEAF-style synthetic data: each client has its own linear model and its own input distribution.

Li et al., *FedProx*, MLSys 2020 (after Shamir et al. 2014). For client k: n_k = int(lognormal(4, 2))
+ 50; u_k ∼ N(0, φ1), W_k ∼ N(u_k, 1), b_k ∼ N(u_k, 1); B_k ∼ N(0, φ2), v_k ∼ N(B_k, 1);
x ∼ N(v_k, diag(j^−1.2)), y = argmax(x·W_k + b_k). φ is used as a standard deviation. The owner of a
row is its client: divide with the partition `natural`. No row is marked as test.

The number of samples varies much between draws. Of the seeds 0 to 1999, 1335 has the sizes nearest to those
that Michieli and Ozay print (9,600, standard deviation 1,051.6): 9,775 and 1,048.7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.options import option
from ...core.rng import numpy_generator
from ..base import Dataset, Source, sources

FEATURES, CLASSES = 60, 10


@sources.register("synthetic")
@dataclass(frozen=True)
class Synthetic(Source):
    """synthetic:phi1=1,phi2=1, 60 features, 10 classes, one owner per client."""

    phi1: float = option(1.0, "how much the clients' models differ", low=0)
    phi2: float = option(1.0, "how much the clients' inputs differ", low=0)
    clients: int = option(30, "number of owners", low=1)
    seed: int = option(0, "of the generated data")

    def load(self) -> Dataset:
        sizes = self.sizes()
        made = [self._client(k, int(n)) for k, n in enumerate(sizes)]
        return Dataset(
            name="synthetic",
            x=np.concatenate([x for x, _ in made]),
            y=np.concatenate([y for _, y in made]),
            test=np.zeros(sizes.sum(), dtype=bool),
            classes=tuple(str(c) for c in range(CLASSES)),
            owner=np.repeat(np.arange(self.clients), sizes),
        )

    def sizes(self) -> np.ndarray:
        """Samples of each client."""
        draws = numpy_generator("synthetic", self.seed, "sizes").lognormal(4, 2, self.clients)
        return draws.astype(np.int64) + 50

    def _client(self, client: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
        rng = numpy_generator("synthetic", self.seed, "client", client)
        u, centre = rng.normal(0, self.phi1), rng.normal(0, self.phi2)
        weight, bias = rng.normal(u, 1, (FEATURES, CLASSES)), rng.normal(u, 1, CLASSES)
        mean = rng.normal(centre, 1, FEATURES)
        std = np.arange(1, FEATURES + 1) ** (-1.2 / 2)
        x = rng.normal(mean, std, (rows, FEATURES))
        return x.astype(np.float32), (x @ weight + bias).argmax(axis=1)
