"""No corruption of any file of a run is believed in silence: a few of them here, 500 in the slow tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from corruptions import Bench, corruptions, table


@pytest.mark.parametrize("count", [10, pytest.param(500, marks=pytest.mark.slow)])
def test_no_corruption_is_believed_in_silence(count: int, tmp_path: Path) -> None:
    found = list(corruptions(Bench(tmp_path), count, seed=count))
    assert len(found) == count
    assert not [one for one in found if one.outcome == "SILENT"], table(found)
