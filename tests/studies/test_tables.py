"""Numbers as text, escapes, and a table in the terminal."""

from __future__ import annotations

import math

from rich.console import Console

from protofed.studies.study_files import write_study
from protofed.studies.tables import Table, as_csv, number, with_spread


def test_numbers_as_text():
    assert number(1234.567) == "1,234.57"
    assert number(-0.001, sign=True) == "+0.00"
    assert number(math.nan) == number(None) == "–"
    assert with_spread(1.0, math.nan, 1) == "1.0"
    assert with_spread(1.0, 0.25, 1) == "1.0 ± 0.2"


def test_special_signs():
    table = Table("100 %", ["a|b", "τ"], [["x_1 & y|z", "±"]])
    assert "| a\\|b | τ |" in table.markdown()
    assert r"x\_1 \& y\textbar{}z & $\pm$ \\" in table.latex()
    assert table.latex().startswith("% 100 %\n")


def test_terminal_shows_markup_as_it_is():
    console = Console(width=60, record=True)
    console.print(Table("t", ["name"], [["[bold]x[/bold]"]], bold=frozenset({(0, 0)})).terminal())
    assert "[bold]x[/bold]" in console.export_text()


def test_csv_leaves_missing_numbers_empty():
    assert as_csv([{"a": 1.5, "b": math.nan}, {"a": None, "b": "x,y"}]) == 'a,b\n1.5,\n,"x,y"\n'
    assert as_csv([]) == "\n"


def test_files_of_a_study(tmp_path):
    paths = write_study(tmp_path / "new", "s", "# s\n", [{"a": math.nan}], {"n": 1})
    assert [path.name for path in paths] == ["s.md", "s.csv", "s.json"]
    assert '"a": null' in paths[2].read_text()
