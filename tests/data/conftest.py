"""Shared by the data tests: a cache of their own, and the folder of real data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


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
