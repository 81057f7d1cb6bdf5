"""Run directories with chosen numbers, and planned runs that point at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from protofed.config import resolve
from protofed.runs.directory import RunDir
from protofed.studies.plan import Planned
from protofed.studies.runner import FINISHED, PAUSED, Done

Accuracies = Mapping[str, Sequence[Sequence[float]]]  # mode → round → client


def planned(row: str, seed: int = 0, **settings: Any) -> Planned:
    return Planned(row, resolve({"method": "fedproto", "seed": seed, **settings}))


def write_run(
    path: Path,
    plan: Planned,
    acc: Accuracies,
    up: int = 100,
    down: int = 200,
    steps: int = 6,
    start: Mapping[str, Sequence[float]] | None = None,
) -> Done:
    """A run whose clients have 10 test samples each; round r takes r seconds and half a second of tests.
    `start` are the clients before the first round."""
    run = RunDir.create(path, plan.config.to_dict())
    rounds = len(next(iter(acc.values())))
    for r in range(1, rounds + 1):
        scores = {mode: _summary(values[r - 1]) for mode, values in acc.items()}
        cost: dict[str, Any] = {
            "up": {"params": up, "bytes": 4 * up},
            "down": {"params": down, "bytes": 4 * down},
        }
        cost |= {"clients": 2, "steps": steps}
        if start and r == 1:
            cost["start"] = {mode: _summary(values) for mode, values in start.items()}
        line = {"round": r, "train_loss": 1.0 / r, "test_loss": 2.0 / r, "acc": scores, **cost}
        run.append("metrics.jsonl", {**line, "seconds": float(r), "eval_seconds": 0.5})
        clients = {mode: list(values[r - 1]) for mode, values in acc.items()}
        count = len(next(iter(clients.values())))
        line = {"round": r, "clients": list(range(count)), "n": [10] * count, "acc": clients}
        run.append("clients.jsonl", line)
    whole = rounds == plan.config.rounds.rounds
    if whole:
        run.finish({"rounds": rounds})
    return Done(plan, path, FINISHED if whole else PAUSED)


def _summary(values: Sequence[float]) -> dict[str, float]:
    mean = sum(values) / len(values)
    std = (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5
    return {"mean": mean, "std": std, "worst": min(values), "worst10": min(values), "pooled": mean}
