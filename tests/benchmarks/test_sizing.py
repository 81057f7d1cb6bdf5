"""The sizing formula: constants found again, predictions worked out by hand, a page with all tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import cohort_memory, sizing
from benchmarks.sizing import Costs, fitted, point
from protofed.engines.store import LIMIT_BYTES

COSTS = Costs(new=3e-3, again=1e-3, base=50e6, registered=8, state=2e4, tensors=1e4, up=600, down=640)


def test_the_formula_by_hand() -> None:
    assert COSTS.seconds(new=10, again=90) == pytest.approx(0.03 + 0.09)
    assert COSTS.traffic(100) == 124_000
    assert COSTS.memory(1_000_000, 1_000) == 50e6 + 8e6 + 20e6
    held = LIMIT_BYTES / 1e4  # so many states of 10,000 bytes fill 4 GiB
    assert COSTS.memory(10_000_000, 10_000_000) == pytest.approx(50e6 + 80e6 + 2e4 * held)
    assert COSTS.disk(1_000) == 0
    assert COSTS.disk(10_000_000) == pytest.approx(1e11 - LIMIT_BYTES)


def made(registered: int, new: int, again: int, seen: int) -> dict[str, Any]:
    return {
        "registered": registered,
        "participants": new + again,
        "seconds": COSTS.seconds(new, again),
        "new": new,
        "seen": seen,
        "peak": COSTS.memory(registered, seen),
        "held": 1000 + 8 * registered,
        "tensors": 1e4,
        "up": 600,
        "down": 640,
    }


def test_constants_are_found_again() -> None:
    points = [made(100, 0, 100, 100), made(1_000, 50, 950, 1_000), made(100_000, 990, 10, 5_000)]
    found = fitted(points)
    for name, value in vars(COSTS).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-6), name


def test_a_point_counts_first_times_and_states() -> None:
    found = point(300, 30, 2)
    assert found["seen"] <= 90
    assert 0 < found["new"] <= 30
    assert found["up"] > 0
    parameters = 64 * 32 + 32 + 32 * 16 + 16 + 16 * 10 + 10
    assert found["tensors"] >= 4 * parameters
    again = point(30, 30, 1)
    assert (again["new"], again["seen"]) == (0, 30)


def test_the_page_holds_all_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.md"
    file.write_text("# Above\n\n<!-- bench: begin -->\nold\n<!-- bench: end -->\n\nbelow\n")
    sizing.main(["--quick", "--rounds", "1", "--markdown", str(file)])
    text = file.read_text()
    for part in ("# Above", "### constants", "### predicted and measured", "| 4,000 | 60 |", "below"):
        assert part in text
    assert "old" not in text
    assert "### constants" in capsys.readouterr().out


def test_a_cohort_by_its_formula() -> None:
    """A linear layer keeps its inputs: 784 pixels and the embedding of every sample, at least."""
    assert cohort_memory.formula(1_000, 500.0) == 17_000
    found = cohort_memory.peak(0, 4)
    assert found["parameters"] == 21_840
    assert found["activations"] >= 8 * 4 * 784
    assert found["peak"] > 0
