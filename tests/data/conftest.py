"""Shared by the data tests: small datasets, and a cache of their own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from protofed.data import Dataset


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def real_data() -> Path:
    """The folder of real datasets; skips where there is none."""
    folder = os.environ.get("PROTOFED_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("PROTOFED_DATA does not name a folder of datasets")
    return Path(folder)


def toy(per_class: int = 40, classes: int = 10, test_share: float = 0.25, name: str = "toy") -> Dataset:
    """Rows in class order 0,1,2,…,0,1,2,…; x holds the row number."""
    rows = per_class * classes
    y = np.arange(rows) % classes
    test = np.arange(rows) // classes >= per_class * (1 - test_share)
    x = np.arange(rows, dtype=np.float32)[:, None]
    return Dataset(name, x, y, test, tuple(str(c) for c in range(classes)))


@pytest.fixture
def make_toy() -> Callable[..., Dataset]:
    return toy
