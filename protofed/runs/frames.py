"""Records as tables of pandas, which is optional."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import ConfigError
from ..runs.records import RoundRecord, scores_of


def frame_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A DataFrame, a row for each record."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise ConfigError(
            "a table needs pandas: pip install pandas (the records themselves are in metrics.jsonl)"
        ) from error
    return pandas.DataFrame(list(rows))


def round_rows(lines: Sequence[RoundRecord]) -> list[dict[str, Any]]:
    """A row for each round: loss, cost and the accuracies of its test, "gp_all" (mean), "gp_all worst" …"""
    plain = ("round", "train_loss", "clients", "samples", "steps", "seconds", "eval_seconds")
    found = []
    for line in lines:
        row: dict[str, Any] = {key: line[key] for key in plain if key in line}
        row |= {f"{way}_bytes": line[way]["bytes"] for way in ("up", "down") if way in line}
        for mode, stats in scores_of(line).items():
            row[mode] = stats["mean"]
            row |= {f"{mode} {stat}": value for stat, value in stats.items() if stat != "mean"}
        found.append(row)
    return found
