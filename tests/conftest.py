"""For all tests: one torch thread, and calls of the command line.

The tensors of the tests are small: threads that wait for each other cost more than they bring, all the
more when tests run side by side.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from pathlib import Path

import pytest
import torch
from refusals import Call, Called

from protofed.cli.main import main

torch.set_num_threads(1)


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))

    def run(*argv: str) -> Called:
        capsys.readouterr()
        return Called(main(argv), *capsys.readouterr())

    return run
