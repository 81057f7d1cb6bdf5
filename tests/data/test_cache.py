"""Decoded once, then memory-mapped."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from protofed.data.cache import cache_folder, cached


class Decoder:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, np.ndarray]:
        self.calls += 1
        return {"x": np.full((3, 2), self.calls), "classes": np.array(["a", "b"])}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.bin"
    path.write_bytes(b"abc")
    return path


def test_second_time_comes_from_the_disk(source: Path) -> None:
    decode = Decoder()
    first = cached("s", [source], {"size": 3}, decode)
    second = cached("s", [source], {"size": 3}, decode)
    assert decode.calls == 1
    assert isinstance(second["x"], np.memmap)
    assert second["x"].tolist() == first["x"].tolist() == [[1, 1]] * 3
    assert second["classes"].tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="read-only"):
        second["x"][0, 0] = 5


def test_other_content_or_options_are_decoded_anew(source: Path) -> None:
    decode = Decoder()
    cached("s", [source], {"size": 3}, decode)
    cached("s", [source], {"size": 4}, decode)
    assert decode.calls == 2
    source.write_bytes(b"abcd")
    cached("s", [source], {"size": 4}, decode)
    assert decode.calls == 3
    os.utime(source, (1, 1))
    cached("s", [source], {"size": 4}, decode)
    assert decode.calls == 4


def test_damaged_entries_are_made_anew(source: Path) -> None:
    decode = Decoder()
    cached("s", [source], {}, decode)
    (file,) = cache_folder().glob("s-*/x.npy")
    file.write_bytes(file.read_bytes()[:20])
    assert cached("s", [source], {}, decode)["x"].tolist() == [[2, 2]] * 3


def test_entries_that_lack_an_array_are_made_anew(source: Path) -> None:
    decode = Decoder()
    cached("s", [source], {}, decode)
    (file,) = cache_folder().glob("s-*/classes.npy")
    file.unlink()
    assert set(cached("s", [source], {}, decode)) == {"x", "classes"}
    assert decode.calls == 2


def test_nothing_half_written_is_left(source: Path) -> None:
    def fails() -> dict[str, np.ndarray]:
        return {"x": np.zeros(3), "bad": np.array([object()], dtype=object)}

    with pytest.raises(ValueError, match="Object arrays"):
        cached("s", [source], {}, fails)
    assert list(cache_folder().iterdir()) == []


def test_unwritable_cache_keeps_the_data_in_memory(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PROTOFED_CACHE", str(source / "below a file"))
    assert cached("s", [source], {}, Decoder())["x"].shape == (3, 2)
    assert "cannot be written" in caplog.text


def test_a_writer_that_comes_second_uses_the_first_ones_entry(source: Path) -> None:
    inner = Decoder()

    def slow() -> dict[str, np.ndarray]:
        cached("s", [source], {}, inner)  # another process finishes while this one decodes
        return {"x": np.zeros((3, 2)), "classes": np.array(["z"])}

    assert cached("s", [source], {}, slow)["x"].tolist() == [[1, 1]] * 3
    assert len(list(cache_folder().iterdir())) == 1


def test_entries_are_for_their_owner_alone(source: Path) -> None:
    """Whatever others may read in general: decoded samples are as private as those they came from."""
    before = os.umask(0)
    try:
        cached("s", [source], {}, Decoder())
    finally:
        os.umask(before)
    (entry,) = cache_folder().iterdir()
    assert entry.stat().st_mode & 0o077 == 0
