"""Files that are whole or not there."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from protofed.core.errors import RunError
from protofed.runs.files import read_json, write_atomic, write_json


def full_disk(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_written_file_is_read_back(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", b"one")
    write_atomic(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "a"
    write_atomic(path, b"old")
    monkeypatch.setattr(os, step, full_disk)
    with pytest.raises(RunError, match=f"^cannot write {path}: No space left on device$"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    write_atomic(path, b"old")

    def crash(*_: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(SystemExit):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot write .*/none/a: No such file or directory"):
        write_atomic(tmp_path / "none" / "a", b"")


def test_a_path_below_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RunError, match=r"cannot write .*/file/a: Not a directory"):
        write_atomic(tmp_path / "file" / "a", b"")


def test_json_round_trip(tmp_path: Path) -> None:
    value = {"b": [1, 2.5, None], "a": "é"}
    write_json(tmp_path / "x.json", value)
    assert read_json(tmp_path / "x.json") == value
    assert list(read_json(tmp_path / "x.json")) == ["b", "a"]


@pytest.mark.parametrize(
    ("content", "line"),
    [(None, "x.json is missing"), (b'{"a": 1', "x.json cannot be read: "), (b"\xff\xfe", "cannot be read: ")],
)
def test_unreadable_json_is_named(tmp_path: Path, content: bytes | None, line: str) -> None:
    if content is not None:
        (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(RunError, match=line):
        read_json(tmp_path / "x.json")
