"""Calls of the command line within this process, in a folder of their own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from small_run import SMALL, Call, Called

from protofed.cli.main import main


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="session")
def _finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three rounds that tests copy: fedproto with a newcomer, and local."""
    folder = tmp_path_factory.mktemp("finished")
    for method in ("fedproto", "local"):
        argv = ["run", method, *SMALL, "--rounds", "3", "--newcomers", "1", "--balanced", "0", "--quiet"]
        assert main([*argv, "--out", str(folder / method)]) == 0
    return folder


@pytest.fixture
def finished(_finished: Path) -> Callable[..., None]:
    """`finished("a")` puts a finished run of three rounds into the folder a."""

    def copy(name: str, method: str = "fedproto") -> None:
        shutil.copytree(_finished / method, name)

    return copy


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """`call("run", "fedproto", …)` gives exit code, stdout and stderr."""

    def run(*argv: str) -> Called:
        capsys.readouterr()
        try:
            code = main(argv)
        except SystemExit as end:
            code = int(end.code or 0)
        return Called(code, *capsys.readouterr())

    return run
