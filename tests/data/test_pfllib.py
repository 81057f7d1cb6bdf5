"""PFLlib's layout: written, read back, and never trusted."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from protofed.core.errors import DataError
from protofed.data import divide, load
from protofed.data.loader import Loader
from protofed.data.pfllib_files import write_split


def test_round_trip(tmp_path: Path) -> None:
    dataset = load("digits:normalise=signed")
    split = divide("dirichlet:beta=0.5", dataset, 12, 0)
    write_split(dataset, split, tmp_path / "set")
    again = load(f"pfllib:{tmp_path / 'set'}")
    back = divide("pfllib", again, 0, 0)
    assert back.clients == 12
    before, after = Loader(dataset, split), Loader(again, back)
    for client in (0, 1, 2, 10, 11):  # 10 comes after 9, not after 1
        for a, b in zip(before.train(client), after.train(client)):
            assert torch.equal(a, b)
        for a, b in zip(before.test(client), after.test(client)):
            assert torch.equal(a, b)
    assert again.num_classes == 10


def test_a_smaller_split_leaves_nothing_of_a_larger_one(tmp_path: Path) -> None:
    dataset = load("digits")
    for clients in (6, 3):
        write_split(dataset, divide("iid", dataset, clients, 0), tmp_path)
    assert divide("pfllib", load(f"pfllib:{tmp_path}"), 0, 0).clients == 3


def test_what_numpy_itself_wrote_is_read(tmp_path: Path) -> None:
    """As PFLlib writes: np.savez_compressed(file, data={"x": …, "y": …})."""
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        for client in range(2):
            data = {"x": np.full((3, 1, 2, 2), client, np.float32), "y": np.array([0, 1, 1])}
            np.savez_compressed(tmp_path / part / f"{client}.npz", data=data)
    dataset = load(f"pfllib:{tmp_path}")
    assert dataset.x.shape == (12, 1, 2, 2)
    split = divide("pfllib", dataset, 2, 0)
    assert dataset.x[split.train[1]].tolist() == np.ones((3, 1, 2, 2)).tolist()
    assert divide("pfllib", dataset, 1, 0).clients == 1


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(Path(os.environ["PROTOFED_CACHE"]).parent / "owned"),)


def test_other_pickles_are_refused_and_not_run(tmp_path: Path) -> None:
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        np.savez(tmp_path / part / "0.npz", data=np.array({"x": Evil(), "y": np.zeros(1)}, dtype=object))
    with pytest.raises(DataError, match=r"it holds posix\.mkdir, and only NumPy arrays are read"):
        load(f"pfllib:{tmp_path}")
    assert not (tmp_path / "owned").exists()


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder; write pfllib:DIR"):
        load(f"pfllib:{tmp_path / 'none'}")
    with pytest.raises(DataError, match=r"has no \.npz files"):
        load(f"pfllib:{tmp_path}")
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "3.npz").write_bytes(b"x")
    with pytest.raises(DataError, match=r"holds 3\.npz; expected 0\.npz"):
        load(f"pfllib:{tmp_path}")
    (tmp_path / "train" / "3.npz").rename(tmp_path / "train" / "0.npz")
    with pytest.raises(DataError, match=r"0\.npz: cannot be read"):
        load(f"pfllib:{tmp_path}")
    np.savez(tmp_path / "train" / "0.npz", data=np.array({"x": np.zeros(3)}, dtype=object))
    with pytest.raises(DataError, match="cannot be read as a PFLlib file"):
        load(f"pfllib:{tmp_path}")
    np.savez(tmp_path / "train" / "0.npz", other=np.zeros(3))
    with pytest.raises(DataError, match="cannot be read as a PFLlib file"):
        load(f"pfllib:{tmp_path}")
