"""What is the same run and what is not, besides the cases of tests/trust."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from refusals import Call

from protofed.data import divide, fingerprints, load
from protofed.data.fingerprints import content_of_arrays, content_of_dataset, content_of_split

SMALL = (
    "--partition", "iid", "--clients", "2", "--models", "mlp:dim=4", "--rounds", "2",
    "--engine", "sequential",
)  # fmt: skip
DATA = ("--data", "npz:mine.npz", *SMALL)


def write_data(path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    y = np.arange(80) % 2
    x = random.normal(size=(80, 10)).astype(np.float32) + y[:, None]
    np.savez(path, x_train=x[:40], y_train=y[:40], x_test=x[40:], y_test=y[40:])


def test_equal_names_of_different_files_are_different_runs(call: Call) -> None:
    Path("a").mkdir()
    Path("b").mkdir()
    for seed, folder in enumerate("ab"):
        write_data(Path(folder, "d.npz"), seed)
    swept = call(
        "sweep", "local", "--over", "data=npz:a/d.npz;npz:b/d.npz", *SMALL, "--out", "s", "--format", "csv"
    )  # fmt: skip
    assert swept.code == 0, swept.err
    assert "reused" not in swept.err
    assert len(list(Path("s/runs").iterdir())) == 2


def test_moved_data_can_be_touched_and_resumed(call: Call) -> None:
    """Dates do not count, nor does the run's folder."""
    mine = Path("mine.npz")
    write_data(mine, 0)
    assert call("run", "local", *DATA, "--out", "r", "--quiet").code == 0
    mine.touch()
    shutil.move("r", "q")
    assert "began" not in call("resume", "q", "--rounds", "3", "--quiet").err


def test_contents_of_datasets_and_splits() -> None:
    data = load("digits")
    assert content_of_dataset(data) == content_of_dataset(load("digits"))
    assert content_of_dataset(data) != content_of_dataset(load("digits:normalise=signed"))
    split = divide("iid", data, 3, 0)
    assert content_of_split(split) == content_of_split(divide("iid", data, 3, 0))
    assert content_of_split(split) != content_of_split(divide("iid", data, 3, 1))


def test_one_value_type_or_shape_counts() -> None:
    rows = np.zeros((4, 3), np.float32)
    other = rows.copy()
    other[2, 1] = 1e-6
    found = [rows, other, rows.astype(np.float64), rows.reshape(3, 4), rows[:0], None]
    assert len({content_of_arrays([one]) for one in found}) == len(found)


def test_large_arrays_are_known_by_some_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten of a thousand rows are read, with the first and the last."""
    rows = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    monkeypatch.setattr(fingerprints, "MOST_BYTES", 10 * rows[0].nbytes)
    whole = content_of_arrays([rows])
    for row, seen in ((0, True), (999, True), (1, False)):
        changed = rows.copy()
        changed[row, 0] += 1
        assert (content_of_arrays([changed]) != whole) == seen
