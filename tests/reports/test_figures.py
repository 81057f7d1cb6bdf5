"""Single figures: every one in every format, real pictures with text as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from protofed.core.errors import ConfigError, RunError
from protofed.reports.content import figures
from protofed.reports.figures import write_figures

pytest.importorskip("matplotlib")
METHODS = ("fedproto", "local", "fedproto_margin")
CHARTS = {
    *("accuracy-rounds", "accuracy-bytes", "accuracy-worst10", "loss", "clients", "clients-worst"),
    *("communication", "time", "split-fedproto"),
}
MODELS = {f"{what}-{run}" for what in ("embedding", "margins") for run in METHODS}
WEIGHTS = {"attention-fedproto_margin", "weights", "weights-rounds"}
STARTS = {"svg": b"<?xml", "pdf": b"%PDF"}


def test_all_figures_of_several_runs(report: dict[str, Any]) -> None:
    """The split is the same for all runs and drawn once; only fedproto_margin has weights."""
    assert sorted(chart.name for chart in figures(report)) == sorted(CHARTS | MODELS | WEIGHTS)


def test_figures_are_written_in_the_formats_asked_for(report: dict[str, Any], tmp_path: Path) -> None:
    alone = {**report, "runs": report["runs"][:1]}
    written = write_figures(alone, tmp_path / "figures", ["svg", "pdf"])  # png: see the command
    assert len(written) == 2 * 11
    for path in written:
        assert path.read_bytes().startswith(STARTS[path.suffix[1:]]), path
    drawn = (tmp_path / "figures" / "accuracy-rounds.svg").read_text()
    assert all(f">{mode}</text>" in drawn for mode in ("gp_local", "clf", "gp_all", "lp"))


def test_a_name_is_no_formula(report: dict[str, Any], tmp_path: Path) -> None:
    """Two dollar signs would be one, and matplotlib would end with an error."""
    runs = [{**run, "name": f"a$x^${i}"} for i, run in enumerate(report["runs"][:2])]
    write_figures({**report, "runs": runs}, tmp_path / "figures", ["svg"])
    assert "a$x^$1 · " in (tmp_path / "figures" / "accuracy-rounds.svg").read_text()


def test_a_folder_that_cannot_be_made_is_one_line(report: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot create .*figures"):
        write_figures(report, tmp_path / "file" / "figures", ["png"])


def test_without_matplotlib_the_extra_is_named(
    report: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"protofed\[report\]"):
        write_figures(report, tmp_path, ["png"])
