"""Text and picture of a split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from toy_data import toy

from protofed.core.errors import ConfigError
from protofed.data import Rows, Split, divide
from protofed.data.split_summary import describe_split
from protofed.reports.figures import draw_split


def small() -> Split:
    """toy: the class of row r is r mod 10. Client 1 tests on class 3, which it does not train on."""
    return Split(Rows.of([np.array([0, 10, 1]), np.array([2])]), Rows.of([np.array([20]), np.array([3])]))


def test_counts_and_lines() -> None:
    summary = describe_split(toy(), small())
    assert summary.train[0].tolist() == [2, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert summary.test[1].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert summary.lines == [
        "toy: 2 clients, 10 classes, 6 of 400 rows used",
        "training rows per client: 1 to 3, mean 2.0, std 1.0",
        "test rows per client: 1 to 1, mean 1.0, std 0.0",
        "training classes per client: 1 to 2, mean 1.50",
        "100 of the 100 test rows of toy are not used",
        "1 clients test on classes that they do not train on (1 rows)",
        "7 classes are nobody's training data: 3, 4, 5, 6, 7…",
        "client 0: 3 + 1 rows; 0:2 1:1",
        "client 1: 1 + 1 rows; 2:1",
    ]


def test_many_clients_are_cut_short() -> None:
    lines = describe_split(toy(), divide("iid", toy(), 60, 0), most=4).lines
    assert lines[-1] == "… and 56 more clients"
    assert sum(line.startswith("client ") for line in lines) == 4


def test_reused_rows_are_told() -> None:
    split = divide("iid:repeat=true", toy(), 600, 0)
    assert "300 training rows are held more than once" in describe_split(toy(), split).lines


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_chart(tmp_path: Path, name: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    path = draw_split(toy(), divide("dirichlet:beta=0.5", toy(), 8, 0), tmp_path / name)
    assert path.read_bytes().startswith(start)


def test_of_many_clients_some_are_named(tmp_path: Path) -> None:
    """Forty numbers side by side would be written over each other."""
    pytest.importorskip("matplotlib")
    drawn = draw_split(toy(), divide("iid", toy(), 40, 0), tmp_path / "many.svg").read_text()
    assert ">38</text>" in drawn
    assert ">37</text>" not in drawn


def test_chart_paths(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.txt must end in \.png, \.svg or \.pdf"):
        draw_split(toy(), small(), tmp_path / "a.txt")
    with pytest.raises(ConfigError, match="is not a folder"):
        draw_split(toy(), small(), tmp_path / "none" / "a.png")
