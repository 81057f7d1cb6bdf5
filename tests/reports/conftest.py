"""Three runs of three rounds, made once: fedproto, local and fedproto_margin on the embedded digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reported_runs import METHODS, SMALL

import protofed
from protofed.reports.collect import collect


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
