"""Three runs of three rounds, made once: fedproto, local and fedproto_margin on the embedded digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import protofed
from protofed.reports.collect import collect

METHODS = ("fedproto", "local", "fedproto_margin")
SMALL = {"models": "mlp", "clients": 4, "engine": "sequential", "rounds": 3, "lr": 0.05}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    for method in METHODS:
        protofed.run(method, out=folder / method, **SMALL)
    return [folder / method for method in METHODS]


@pytest.fixture(scope="session")
def report(runs: list[Path]) -> dict[str, Any]:
    """The whole report of the three runs; tests must not change it."""
    return collect(runs, points=40)
