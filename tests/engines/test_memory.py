"""Memory stays flat over many rounds, in the parent and in its workers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from protofed import experiment
from protofed.runs.directory import RunDir
from protofed.testing import Toy

WARM, ROUNDS = 200, 1000
MOST = 6.0  # megabytes, of which the records of the rounds take the larger part


@pytest.mark.slow
def test_memory_is_flat_over_a_thousand_rounds(tmp_path: Path) -> None:
    built = Toy("fedproto").build(rounds=ROUNDS, engine="workers", workers=2)
    seen: dict[int, dict[int, float]] = {}

    def look(record: dict[str, Any]) -> None:
        if record["round"] in (WARM, ROUNDS):
            processes = [psutil.Process(), *psutil.Process().children()]
            seen[record["round"]] = {p.pid: p.memory_info().rss / 2**20 for p in processes}

    experiment.carry_out(built, RunDir.create(tmp_path, built.config.to_dict()), look)
    grown = {pid: seen[ROUNDS][pid] - rss for pid, rss in seen[WARM].items()}
    parent = grown.pop(os.getpid())
    sys.stdout.write(
        f"MB from round {WARM} to {ROUNDS}: parent {parent:.1f}, workers {sorted(grown.values())}\n"
    )
    assert len(grown) == 2
    assert max(parent, *grown.values()) < MOST
