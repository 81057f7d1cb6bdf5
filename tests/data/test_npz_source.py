"""npz:PATH."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from protofed.core.errors import DataError
from protofed.data import load


def arrays(**changes: np.ndarray) -> dict[str, np.ndarray]:
    made = {
        "x_train": np.arange(6 * 4 * 4, dtype=np.uint8).reshape(6, 4, 4),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "x_test": np.zeros((2, 4, 4), np.uint8),
        "y_test": np.array([0, 2], dtype=np.uint8),
    }
    return made | changes


def saved(folder: Path, **changes: np.ndarray) -> str:
    np.savez(folder / "set.npz", **arrays(**changes))
    return f"npz:{folder / 'set.npz'}"


def test_grey_images(tmp_path: Path) -> None:
    dataset = load(saved(tmp_path))
    assert dataset.name == "set"
    assert dataset.x.shape == (8, 1, 4, 4)
    assert dataset.x[1, 0, 0].tolist() == [16, 17, 18, 19]
    assert dataset.y.tolist() == [0, 1, 2, 0, 1, 2, 0, 2]
    assert dataset.test.tolist() == [False] * 6 + [True] * 2
    assert dataset.num_classes == 3


def test_channels_last_become_first(tmp_path: Path) -> None:
    x = np.arange(6 * 4 * 5 * 3).reshape(6, 4, 5, 3).astype(np.uint8)
    dataset = load(saved(tmp_path, x_train=x, x_test=x[:2]))
    assert dataset.shape == (3, 4, 5)
    assert (dataset.x[2, 1] == x[2, :, :, 1]).all()


def test_floats_are_kept(tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 6 * 7).reshape(6, 7)
    dataset = load(saved(tmp_path, x_train=x, x_test=x[:2]))
    assert dataset.x.dtype == np.float32
    assert np.allclose(dataset.x[:6], x)


def test_names_domains_and_owners(tmp_path: Path) -> None:
    columns = {"domain_train": np.array([0, 0, 1, 1, 0, 1]), "domain_test": np.array([0, 1])}
    columns |= {"owner_train": np.arange(6), "owner_test": np.arange(2)}
    dataset = load(saved(tmp_path, classes=np.array(["a", "b", "c", "d"]), **columns))
    assert dataset.classes == ("a", "b", "c", "d")
    assert dataset.domains == ("0", "1")
    assert dataset.owner is not None
    assert dataset.owner.tolist() == [0, 1, 2, 3, 4, 5, 0, 1]


def test_masks(tmp_path: Path) -> None:
    masks = np.zeros((6, 4, 4), np.uint8)
    masks[:, 0, 0], masks[:, 1, 1] = 255, 1
    dataset = load(saved(tmp_path, y_train=masks, y_test=masks[:2], classes=np.array(["bg", "a"])))
    assert dataset.dense
    assert dataset.y[0, :2, :2].tolist() == [[-1, 0], [0, 1]]


def nan(shape: tuple[int, ...]) -> np.ndarray:
    return np.full(shape, np.nan)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_train": np.array([0, 1, 2, 0, 1])}, "x_train has 6 rows, y_train has 5"),
        ({"y_train": np.array([0, 1, 2, 0, 1, -2])}, "row 5 has label -2, expected 0 to 2"),
        ({"y_test": np.array([0, 3])}, "row 7 has label 3, expected 0 to 2"),
        ({"y_train": np.array([0, 1, 2, 0, 1, 0.5])}, "NaN or fractions"),
        ({"y_train": np.array(list("abcabc"))}, "y_train holds names, the other labels are numbers"),
        (
            {"y_train": np.array(list("abcabc")), "y_test": np.array(["a", "d"]), "classes": np.array(["a"])},
            r"label 'b' is not in classes \(a\)",
        ),
        ({"x_train": nan((6, 4)), "x_test": np.zeros((2, 4))}, "row 0 of x holds NaN"),
        ({"x_test": np.zeros((2, 5, 5), np.uint8)}, r"x_train has rows of \(4, 4\), x_test of \(5, 5\)"),
        ({"x_train": np.zeros((6, 4), np.uint8), "x_test": np.zeros((2, 4), np.uint8)}, "images have shape"),
        ({"x_train": np.zeros((6, 4), int), "x_test": np.zeros((2, 4), int)}, "expected uint8 or float"),
    ],
)
def test_bad_arrays(tmp_path: Path, changes: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load(saved(tmp_path, **changes))
    assert "\n" not in str(caught.value)


def test_missing_file_and_key(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.npz: no such file"):
        load(f"npz:{tmp_path / 'none.npz'}")
    with pytest.raises(DataError, match="no path given"):
        load("npz")
    np.savez(tmp_path / "part.npz", x_train=np.zeros(3), y_train=np.zeros(3))
    with pytest.raises(DataError, match="key 'x_test' is missing; it has x_train, y_train"):
        load(f"npz:{tmp_path / 'part.npz'}")


def test_damaged_files(tmp_path: Path) -> None:
    spec = saved(tmp_path)
    whole = (tmp_path / "set.npz").read_bytes()
    for content in (b"", b"not an archive", whole[: len(whole) // 2]):
        (tmp_path / "set.npz").write_bytes(content)
        with pytest.raises(DataError, match=r"cannot be read as an \.npz archive|is no \.npz archive"):
            load(spec)
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(DataError, match="single array"):
        load(f"npz:{tmp_path / 'one.npy'}")


def test_pickled_content_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'y_train' holds Python objects"):
        load(saved(tmp_path, y_train=np.array([{}] * 6, dtype=object)))
