"""Written forms of data and partitions, and the checks that all results pass through."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from toy_data import toy

from protofed.core.errors import ConfigError, DataError
from protofed.data import Dataset, Rows, Split, divide, load, partitions, sources
from protofed.data.check import check_dataset, check_split
from protofed.data.specs import parse_source


def test_digits() -> None:
    dataset = load("digits")
    assert dataset.x.shape == (1797, 1, 8, 8)
    assert dataset.x.dtype == np.float32
    assert dataset.x.min() == 0
    assert dataset.x.max() == 1
    assert dataset.test.sum() == 450
    share = np.bincount(dataset.y[dataset.test]) / np.bincount(dataset.y)
    assert np.allclose(share, 0.25, atol=0.01)


def test_the_test_split_is_fixed() -> None:
    assert np.array_equal(load("digits").test, load("digits").test)


def test_options_of_image_sets() -> None:
    dataset = load("digits:per_class=7,normalise=signed,augment=crop1+flip")
    assert np.bincount(dataset.y[~dataset.test]).tolist() == [7] * 10
    assert dataset.test.sum() == 450
    assert dataset.mean == dataset.std == (0.5,)
    assert dataset.augment == "crop1+flip"
    assert load("digits", {"per_class": 3}).x.shape[0] == 480


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("digits", ("digits", {})),
        ("digits:per_class=3", ("digits", {"per_class": "3"})),
        ("npz:/a/b.npz", ("npz", {"path": "/a/b.npz"})),
        ("npz:C:/a,b=c/d.npz", ("npz", {"path": "C:/a,b=c/d.npz"})),
        (
            "npz:/a/b.npz,per_class=3,normalise=unit",
            ("npz", {"path": "/a/b.npz", "per_class": "3", "normalise": "unit"}),
        ),
        ("npz:path=/a/b.npz", ("npz", {"path": "/a/b.npz"})),
        ("hf:uoft-cs/cifar10", ("hf", {"set": "uoft-cs/cifar10"})),
    ],
)
def test_parse_source(spec: str, expected: tuple[str, dict[str, str]]) -> None:
    assert parse_source(spec) == expected


def test_home_folder_in_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert parse_source("npz:~/a.npz") == ("npz", {"path": "/home/me/a.npz"})


def test_unknown_names_show_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown data 'fashion_mnst'; did you mean 'fashion_mnist'"):
        load("fashion_mnst")
    with pytest.raises(ConfigError, match="unknown partition 'dirichle'; did you mean 'dirichlet'"):
        divide("dirichle", toy(), 2, 0)
    with pytest.raises(ConfigError, match="unknown option 'perclass'; did you mean 'per_class'"):
        load("digits:perclass=3")
    with pytest.raises(ConfigError, match="unknown part 'blur'"):
        load("digits:augment=blur")
    with pytest.raises(ConfigError, match="at least 1"):
        load("digits:per_class=0")


def test_everything_registered_has_a_summary() -> None:
    assert all(sources.summary(name) for name in sources)
    assert all(partitions.summary(name) for name in partitions)


def test_number_of_clients() -> None:
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        divide("iid", toy(), 0, 0)
    with pytest.raises(ConfigError, match="at least 0, got -1"):
        divide("iid", toy(), -1, 0)


@pytest.mark.parametrize(
    "name", ["mnist", "fashion_mnist", "cifar10", "digit5", "femnist", "pacs", "flowers102", "pets"]
)
def test_missing_data_folder(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.delenv("PROTOFED_DATA", raising=False)
    with pytest.raises(DataError, match=f"{name}: the environment variable PROTOFED_DATA is not set"):
        load(name)
    monkeypatch.setenv("PROTOFED_DATA", "/no/such/folder")
    with pytest.raises(DataError, match="/no/such/folder, which is not a folder"):
        load(name)
    monkeypatch.setenv("PROTOFED_DATA", str(tmp_path_factory.mktemp("empty")))
    with pytest.raises(DataError, match="does not exist; put it there"):
        load(name)


def changed(**columns: object) -> Dataset:
    return dataclasses.replace(toy(), **columns)  # type: ignore[arg-type]


def nan_at(row: int) -> np.ndarray:
    x = np.zeros((400, 3), np.float32)
    x[row, 1] = np.nan
    return x


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (changed(y=np.full(400, 10)), "row 0 has label 10, expected 0 to 9"),
        (changed(y=np.r_[np.zeros(399, int), -1]), "row 399 has label -1"),
        (changed(y=np.zeros(399, int)), "y has 399 rows, x has 400"),
        (changed(test=np.zeros(3, bool)), "test has 3 rows"),
        (changed(y=np.zeros(400)), "labels must be integers"),
        (changed(x=nan_at(17)), "row 17 of x holds NaN"),
        (changed(x=np.zeros((0, 1), np.float32)), "no samples"),
        (changed(y=np.full((400, 2, 2), -2)), "row 0 has label -2"),
    ],
)
def test_bad_datasets(dataset: Dataset, message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_dataset(dataset)


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ([[0, 1], []], [[2], [3]], "client 1 has no training samples"),
        ([[0, 1], [2]], [[3], [2]], "client 1 both trains and tests on row 2"),
        ([[0, 400], [2]], [[3], [4]], "row 400 does not exist; toy has 400 rows"),
        ([[0, -1], [2]], [[3], [4]], "row -1 does not exist"),
        ([[0], [2]], [[3]], "2 training parts but 1 test parts"),
    ],
)
def test_bad_splits(train: list[list[int]], test: list[list[int]], message: str) -> None:
    def rows(lists: list[list[int]]) -> Rows:
        return Rows.of([np.array(one, dtype=np.int64) for one in lists])

    with pytest.raises(DataError, match=message):
        check_split(Split(rows(train), rows(test)), toy(), "here")


def test_another_clients_training_row_may_be_tested_on() -> None:
    split = Split(Rows.of([np.array([0]), np.array([1])]), Rows.of([np.array([1]), np.array([0])]))
    assert check_split(split, toy(), "here") is split
