"""LEAF-style synthetic data."""

from __future__ import annotations

import numpy as np

from protofed.data import divide, load
from protofed.data.source.synthetic import Synthetic


def test_shapes_and_owners() -> None:
    dataset = load("synthetic:phi1=1,phi2=1")
    assert dataset.shape == (60,)
    assert dataset.owner is not None
    sizes = np.bincount(dataset.owner)
    assert len(sizes) == 30
    assert sizes.min() >= 50
    split = divide("natural", dataset, 30, 0)
    assert (split.train.sizes == np.floor(0.8 * sizes)).all()


def test_reproducible_and_seeded() -> None:
    assert np.array_equal(load("synthetic").x, load("synthetic").x)
    assert not np.array_equal(load("synthetic").x[:50], load("synthetic:seed=1").x[:50])


def test_the_recipes_seed_has_sizes_like_the_paper() -> None:
    """Michieli and Ozay, Table 1: 9,600 samples in 30 clients, standard deviation 1,051.6."""

    def distance(seed: int) -> float:
        sizes = Synthetic(seed=seed).sizes()
        return float(abs(np.log(sizes.sum() / 9600)) + abs(np.log(sizes.std() / 1051.6)))

    sizes = np.bincount(load("synthetic:seed=1335").owner)
    assert sizes.sum() == 9775
    assert abs(sizes.std() - 1048.7) < 0.1
    assert min(range(2000), key=distance) == 1335


def test_the_spread_of_features_follows_the_power() -> None:
    """Within a client, feature j (from 1) has variance j^−1.2: 1 for the first, 0.0074 for the last."""
    dataset = load("synthetic:seed=3")
    assert dataset.owner is not None
    largest = np.bincount(dataset.owner).argmax()
    variance = dataset.x[dataset.owner == largest].var(axis=0)
    assert np.allclose(variance, np.arange(1, 61) ** -1.2, rtol=0.35)


def test_phi2_moves_the_inputs_apart() -> None:
    def spread(phi2: float) -> float:
        dataset = load(f"synthetic:phi2={phi2}")
        assert dataset.owner is not None
        means = [dataset.x[dataset.owner == k].mean() for k in range(30)]
        return float(np.std(means))

    assert spread(0) < 0.3 < 3 < spread(5)
