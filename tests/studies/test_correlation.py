"""Pearson's correlation by hand, and of the numbers that the paper prints."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from protofed.studies.cells import NOT_RUN, Cell
from protofed.studies.correlation import correlation_note, pearson
from protofed.studies.recipe import load_recipe

PAPER = {  # Table 2: accuracy on Synthetic, MNIST, FEMNIST, CelebA
    "FedAvg": [72.3, 88.8, 75.1, 86.2],
    "FedProx": [74.8, 91.7, 81.1, 86.4],
    "FedProto": [78.7, 93.3, 82.5, 87.8],
    "Centralized": [78.5, 99.0, 99.4, 92.6],
}


def test_by_hand() -> None:
    """Deviations (−1, 0, 1) and (−1, 1, 0): 1 / √(2·2). t = 0.5/√(0.75/1) = 1/√3, p = 1 − 2·atan(t)/π."""
    found = pearson([0, 1, 2], [0, 2, 1])
    assert found == (pytest.approx(0.5), pytest.approx(1 - 2 * math.atan(1 / math.sqrt(3)) / math.pi), 3)
    assert math.isnan(pearson([0, 1], [0, 1]).r)
    assert math.isnan(pearson([1, 1, 1], [0, 1, 2]).r)


def cell(row: str, column: str, ours: float, accuracy: float) -> Cell:
    none = math.nan
    return Cell(row, column, ours, none, none, none, none, NOT_RUN, "", accuracy=accuracy)


def test_of_the_printed_tables() -> None:
    """All 16 cells of Tables 2 and 4; the printed 0.68 is of other pairs, or of other digits."""
    recipe = load_recipe("pm-t4")
    columns = [column.name for column in recipe.columns[:4]]
    cells = [
        cell(row, column, recipe.printed("mean", row, column), value)
        for row, values in PAPER.items()
        for column, value in zip(columns, values, strict=True)
    ]
    (line,) = correlation_note(recipe, [*cells, replace(cells[0], column="FFD MNIST", ours=60.0)])
    assert line.endswith("r = 0.65, p = 0.0067 over 16 cells (paper: r = 0.68, p = 0.01)")
    (line,) = correlation_note(recipe, cells[:12])
    assert "r = 0.59, p = 0.042 over 12 cells" in line
    (line,) = correlation_note(recipe, cells[:2])
    assert "2 cells are too few" in line
    (line,) = correlation_note(recipe, [replace(cell, accuracy=50.0) for cell in cells])
    assert "16 cells, and one of the two is the same in all" in line
    assert correlation_note(load_recipe("pm-t2"), cells) == []
