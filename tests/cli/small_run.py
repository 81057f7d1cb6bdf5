"""A run that takes a fraction of a second, and the comparison of two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from protofed.core.record import Record
from protofed.experiment import reopen
from protofed.runs.directory import RunDir
from protofed.testing import snapshot

SMALL = ("--models", "mlp", "--clients", "4", "--engine", "sequential")
TIMES = ("seconds", "eval_seconds")


def lines(path: Path | str, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    """The lines of a run without the seconds."""
    found = RunDir.open(Path(path)).lines(name)
    return [{key: value for key, value in line.items() if key not in TIMES} for line in found]


def saved(path: Path | str) -> dict[str, torch.Tensor]:
    """All tensors of the last checkpoint."""
    experiment = reopen(RunDir.open(Path(path)))
    assert isinstance(experiment.federation.state, Record)
    return snapshot(experiment)


def assert_same_run(one: Path | str, two: Path | str) -> None:
    """Bit for bit: metrics, per-client accuracies, server state and clients' states."""
    for name in ("metrics.jsonl", "clients.jsonl"):
        assert lines(one, name) == lines(two, name)
    ours, theirs = saved(one), saved(two)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
