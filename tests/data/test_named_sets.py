"""The sets under PROTOFED_DATA. They need the real files; sets that take long to decode are marked slow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from protofed.core.errors import DataError
from protofed.data import divide, load
from protofed.data.labels import class_counts
from protofed.data.loader import Loader

SECOND_START = """
import sys
from protofed.data import load
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
dataset = load("mnist")
assert type(dataset.x).__name__ == "memmap"
print(sum(name.endswith("mnist.npz") for name in opened), len(opened))
"""


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _needs(real_data: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test here reads real files, decoded once for all."""
    monkeypatch.setenv("PROTOFED_CACHE", str(shared_cache))


def test_mnist() -> None:
    """The published mean and deviation of the training pixels are 0.1307 and 0.3081."""
    dataset = load("mnist")
    assert dataset.x.shape == (70000, 1, 28, 28)
    assert dataset.test.sum() == 10000
    assert dataset.mean == (0.1307,)
    assert dataset.y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert dataset.x[:60000].mean() / 255 == pytest.approx(0.1307, abs=1e-4)
    # even and odd rows differ in brightness, so a sample must hold both
    assert (dataset.x[:60000:7] / np.float32(255)).std() == pytest.approx(0.3081, abs=2e-3)


def test_mnist_is_decoded_once_for_all_processes() -> None:
    """Another process maps what the first one decoded, and does not open the archive."""
    load("mnist")
    made = subprocess.run([sys.executable, "-c", SECOND_START], capture_output=True, text=True, check=True)
    archives, files = map(int, made.stdout.split())
    assert archives == 0 < files


def test_fashion_mnist_capped() -> None:
    dataset = load("fashion_mnist:per_class=100")
    assert np.bincount(dataset.y[~dataset.test]).tolist() == [100] * 10
    assert dataset.mean == dataset.std == (0.5,)


def test_fedprotos_setting_on_mnist() -> None:
    dataset = load("mnist")
    split = divide("nway:n=3,k=100,stdev=2", dataset, 20, 0)
    counts = class_counts(dataset, split.test)
    assert set(counts[counts > 0]) == {40}
    x, y = Loader(dataset, split).train(0)
    assert x.shape[1:] == (1, 28, 28)
    assert x.max() == pytest.approx((1 - 0.1307) / 0.3081, abs=1e-5)
    assert len(y.unique()) in range(2, 6)


def test_power_law_mnist_among_1000() -> None:
    """FedProx reports 69,035 samples for its draw; rounding down loses about one row per client."""
    split = divide("power_law", load("mnist"), 1000, 0)
    total = split.train.sizes.sum() + split.test.sizes.sum()
    assert 68_500 < total < 70_000


def test_femnist() -> None:
    dataset = load("femnist")
    assert len(dataset.x) == 31485 - 207  # without copies
    assert dataset.test.sum() == 3203
    flat = dataset.x.reshape(len(dataset.x), -1)
    assert len(np.unique(flat, axis=0)) == len(flat)
    assert dataset.num_classes == 62
    assert np.median(dataset.x[:200]) == 255  # white background
    assert np.median(load("femnist:invert=true").x[:200]) == 0
    assert divide("natural", dataset, 0, 0).clients == 207
    letters = load("femnist:classes=letters")
    assert len(letters.x) == 1730
    assert letters.classes == tuple("abcdefghij")


def test_masks_are_not_left_behind_by_augmentation() -> None:
    with pytest.raises(DataError, match="augment=flip would move images and not their masks"):
        load("pets:size=16,augment=flip")
    assert load("pets:label=species,size=16,augment=flip").augment == "flip"


def test_pets() -> None:
    dataset = load("pets:size=48")
    assert dataset.y.shape == (500, 48, 48)
    assert set(np.unique(dataset.y)) == {-1, 0, 1}
    assert (dataset.y[:, 24, 24] == 1).mean() > 0.7  # the pet is mostly in the middle
    species = load("pets:label=species,size=16")
    masks = load("pets:label=species_mask,size=16")
    top = masks.y.max(axis=(1, 2))
    shown = top > 0
    assert (~shown).sum() <= 1  # the mask of training row 99 is blank in the file itself
    assert np.array_equal(top[shown], species.y[shown] + 1)
    assert load("pets:label=breed,size=16").num_classes == 37
    assert divide("voc:alpha=0.1", masks, 10, 0).clients == 10


def test_flowers102() -> None:
    dataset = load("flowers102:size=16")
    assert dataset.x.shape == (2040, 3, 16, 16)
    assert dataset.num_classes == 102


@pytest.mark.slow
def test_pacs() -> None:
    dataset = load("pacs:size=16")
    assert dataset.domain is not None
    assert dataset.domains == ("art_painting", "cartoon", "photo", "sketch")
    assert np.bincount(dataset.domain).tolist() == [2048, 2344, 1670, 3929]
    assert divide("domain:m=30", dataset, 0, 0).train.sizes.tolist() == [210] * 4


def test_digit5() -> None:
    dataset = load("digit5:per_class=30,size=16")
    assert dataset.domains == ("mnist", "usps", "svhn", "synth", "mnist_m")
    split = divide("domain:m=30", dataset, 0, 0)
    assert split.train.sizes.tolist() == [300] * 5
    assert split.test.sizes.tolist() == [10000, 2007, 1500, 1000, 1500]
    assert (dataset.x[0, 0] == dataset.x[0, 2]).all()  # grey repeated


@pytest.mark.slow
def test_cifar10() -> None:
    """Published mean of the training pixels: 0.4914, 0.4822, 0.4465."""
    dataset = load("cifar10")
    assert dataset.x.shape == (60000, 3, 32, 32)
    assert dataset.augment == "crop4+flip"
    assert np.allclose(dataset.x[:50000].mean(axis=(0, 2, 3)) / 255, (0.4914, 0.4822, 0.4465), atol=2e-3)
    assert load("cifar10:normalise=signed,augment=none").mean == (0.5, 0.5, 0.5)
