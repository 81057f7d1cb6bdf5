"""FedProto's ± as its released evaluation prints it, by hand."""

from __future__ import annotations

import math

import pytest

from protofed.metrics.released import running_accuracies, spread


def test_counters_that_are_never_set_back() -> None:
    """Clients of 10 and 30. Classifier 10 and 15 right: 10/10, 25/40. Prototypes 5 and 30, each pass
    after the classifier's: (10 + 5)/20, (10 + 5 + 15 + 30)/80."""
    assert running_accuracies([10, 30], [10, 15]) == [100.0, 62.5]
    assert running_accuracies([10, 30], [10, 15], [5, 30]) == [75.0, 75.0]


def test_the_spread_shrinks() -> None:
    """Clients of 10 with 10, 0, 10, 0 right: plain spread 50; running 100, 50, 66.7, 50: about 20.4."""
    running = running_accuracies([10] * 4, [10, 0, 10, 0])
    assert running == pytest.approx([100, 50, 200 / 3, 50])
    assert spread([100, 0, 100, 0]) == 50
    assert spread(running) == pytest.approx(20.4124, abs=1e-4)
    assert math.isnan(spread([]))
