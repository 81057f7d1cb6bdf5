"""Under tables: majority class and chance, and what says that a number is no result."""

from __future__ import annotations

import json
from pathlib import Path

from fake_runs import planned, write_run
from run_surgery import forget_checksums

from protofed.runs.outcome import Outcome
from protofed.studies.cells import Cell
from protofed.studies.compare import compare
from protofed.studies.comparison_table import comparison_tables
from protofed.studies.footnotes import finding_notes, findings_of, level_note
from protofed.studies.recipe import load_recipe
from protofed.studies.reproduction_table import compact
from protofed.studies.runner import Done

DEAD = {"kind": "prototypes", "text": "all prototypes are zero", "modes": ["gp_local"]}
BESIDE = {"majority": 36.5, "chance": 10.0, "chance_own": 33.3}


def run(path: Path, row: str, seed: int = 0, findings: tuple[dict[str, object], ...] = ()) -> Done:
    """Two rounds, two clients, two modes."""
    done = write_run(
        path, planned(row, seed, rounds=2), {"gp_local": [[30.0, 40.0]] * 2, "clf": [[50.0, 60.0]] * 2}
    )
    forget_checksums(path)
    file = path / "metrics.jsonl"
    lines = [
        json.loads(line) | {"baseline": BESIDE, "findings": findings}
        for line in file.read_text().splitlines()
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return done


def test_a_collapsed_row_is_marked_and_explained(tmp_path: Path) -> None:
    done = [run(tmp_path / "a", "good"), run(tmp_path / "b", "bad", findings=(DEAD,))]
    table = comparison_tables(compare(done), "digits")[0]
    marked = {(row[0], row[1]) for row in table.rows if "†" in row[2]}
    assert marked == {("bad", "gp_local")}
    assert "† bad (gp_local): all prototypes are zero" in table.notes
    assert "majority class 36.5 %" in table.notes
    assert "chance 33.3 % (gp_local), 10.0 % (clf)" in table.notes


def test_a_finding_of_some_seeds_says_of_how_many(tmp_path: Path) -> None:
    done = [run(tmp_path / "a", "m", 0, (DEAD,)), run(tmp_path / "b", "m", 1)]
    runs = [Outcome.read(one.path) for one in done]
    assert findings_of(runs, "gp_local") == "all prototypes are zero (in 1 of 2 runs)"
    assert findings_of(runs, "clf") == ""


def test_levels_that_differ_name_their_rows() -> None:
    found = [(36.5, "k=10"), (50.0, "k=50"), (36.54, "k=20"), (float("nan"), "earlier")]
    assert level_note("majority class", found) == ["majority class 36.5 % (k=10, k=20), 50.0 % (k=50)"]
    assert level_note("chance", [(float("nan"), "earlier")]) == []


def test_modes_share_a_note() -> None:
    found = [("m", "clf", "dead"), ("m", "lp", ""), ("m", "gp_all", "dead")]
    assert finding_notes(found) == ["† m (clf, gp_all): dead"]


def test_a_collapsed_cell_of_a_recipe_is_marked() -> None:
    nan = float("nan")
    beside = {"majority": 40.0, "chance": 10.0}
    cell = Cell("FedProto", "n = 3", 37.0, nan, 97.0, nan, -60.0, "worse", "", **beside, findings="dead")
    table = compact(load_recipe("fp-t2"), [cell])
    assert "37.00 † (97.00)" in table.rows[0][1]
    assert "† FedProto (n = 3): dead" in table.notes
    assert "majority class 40.0 %" in table.notes
