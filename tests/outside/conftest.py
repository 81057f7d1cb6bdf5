"""A folder with a method that is not ours, and calls of the command line in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from refusals import Call, Called

from protofed.cli.main import main
from protofed.core import user_files
from protofed.core.algorithm import methods
from protofed.data import partitions, sources
from protofed.models.base import families


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file registers is gone after its test."""
    for registry in (methods, sources, partitions, families):
        monkeypatch.setattr(registry, "_classes", dict(registry._filled()))  # type: ignore[attr-defined]
    monkeypatch.setattr(user_files, "_loaded", {})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with fedmedian.py in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    shutil.copy(Path(__file__).parent / "own_method.py", tmp_path / "fedmedian.py")
    return tmp_path


@pytest.fixture
def call(folder: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """`call("run", "fedmedian.py:FedMedian", …)` gives exit code, stdout and stderr."""

    def run(*argv: str) -> Called:
        capsys.readouterr()
        try:
            code = main(argv)
        except SystemExit as end:
            code = int(end.code or 0)
        return Called(code, *capsys.readouterr())

    return run
