"""`protofed report` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from protofed.cli.main import main


def test_page_and_figures_are_written(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "two.html"
    argv = ["report", str(runs[0]), str(runs[1]), "-o", str(out), "--points", "20", "--png"]
    assert main(argv) == 0
    assert out.read_text().startswith("<!doctype html>")
    drawn = (tmp_path / "two-figures" / "embedding-fedproto.png").read_bytes()
    assert drawn.startswith(b"\x89PNG")
    assert len(drawn) > 5000
    assert f"written: {out}" in capsys.readouterr().err


def test_quiet_and_light(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "light.html"
    assert main(["report", str(runs[0]), "-o", str(out), "--light", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert '"name":"embedding-' not in out.read_text()


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--points", "-1"], "--points: must not be negative, got -1"),
        (["-o", "nowhere/report.html"], "--out: nowhere is not a folder"),
    ],
)
def test_mistakes_are_one_line(
    runs: list[Path], more: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(runs[0]), *more]) == 2
    assert capsys.readouterr().err == f"protofed: error: {line}\n"


def test_a_missing_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "none")]) == 1
    assert "is not a run directory" in capsys.readouterr().err
