"""The table of what the defaults reach: means over the seeds that all have, and its place in the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import defaults


def line(data: str, method: str, seed: int, accuracy: float) -> dict[str, object]:
    values = {"data": data, "method": method, "seed": seed, "accuracy": accuracy}
    return {**values, "mode": "clf", "majority": 40.0 + seed, "seconds": 1.0}


def test_means_are_over_the_seeds_that_all_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On a both seeds: (80 + 90)/2 = 85, lowest 80. On b seed 2 lacks y and does not count. c was not run."""
    runs = [line("a", m, s, 80.0 if s == 1 else 90.0) for m in "xy" for s in (1, 2)]
    runs += [line("b", "x", 1, 50.0), line("b", "y", 1, 60.0), line("b", "x", 2, 99.0)]
    file = tmp_path / "r.jsonl"
    file.write_text("".join(json.dumps(run) + "\n" for run in runs))
    argv = ["--data", "a,b,c", "--methods", "x,y", "--seeds", "1,2", "--runs", "0", "--results", str(file)]
    assert defaults.main(argv) == 0
    assert capsys.readouterr().out == (
        "| method | mode | a | b | c |\n"
        "|---|---|---|---|---|\n"
        "| seeds |  | 2 | 1 | 0 |\n"
        "| majority share |  | 41.5 | 41.0 |  |\n"
        "| x | clf | 85.0 (80.0) | 50.0 (50.0) |  |\n"
        "| y | clf | 85.0 (80.0) | 60.0 (60.0) |  |\n"
    )


def test_the_table_takes_the_place_of_the_old_one() -> None:
    page = "# T\n\n| method | mode | a |\n|---|---|---|\n| x | clf | 1 |\n\nEnd\n\n| method | option |\n"
    new = "| method | mode | b |\n"
    assert defaults.with_table(page, new) == "# T\n\n| method | mode | b |\n\nEnd\n\n| method | option |\n"
    assert defaults.with_table(defaults.PAGE.read_text(), new).count("| method | mode |") == 1
