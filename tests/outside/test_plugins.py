"""A small distribution that was installed beside protofed: its entry points add to all registries."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from refusals import SMALL, Call, assert_refused

from protofed.core.algorithm import methods

POINTS = """
[protofed.methods]
fedmedian = median_package.method:FedMedian

[protofed.sources]
dots = median_package.parts:Dots

[protofed.partitions]
thirds = median_package.parts:Thirds

[protofed.models]
line = median_package.parts:Line
"""
PARTS = '''
from dataclasses import dataclass
import numpy as np
from torch import nn
from protofed.data import Dataset, Partitioner, Rows, Source, Split
from protofed.models.base import Family, Model


@dataclass(frozen=True)
class Dots(Source):
    """Two heaps of dots."""

    def load(self):
        y = np.arange(90) % 2
        x = np.repeat(2 * y[:, None], 3, axis=1).astype(np.float32)
        return Dataset("dots", x, y, np.arange(90) >= 60, ("a", "b"))


@dataclass(frozen=True)
class Thirds(Partitioner):
    """In three."""

    def split(self, dataset, clients, seed):
        parts = [[rows[k::3] for k in range(3)] for rows in (np.arange(60), np.arange(60, 90))]
        return Split(Rows.of(parts[0]), Rows.of(parts[1]))


@dataclass(frozen=True)
class Line(Family):
    """One linear layer."""

    def build(self, shape, num_classes):
        return Model(nn.Linear(shape[0], 4), nn.Linear(4, num_classes))
'''


@pytest.fixture
def install(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """`install(POINTS)` makes a distribution median-package 1.2 with these entry points."""

    def made(points: str) -> None:
        site = folder / "site"
        info = site / "median_package-1.2.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: median-package\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(points)
        (site / "median_package").mkdir()
        (site / "median_package" / "__init__.py").touch()
        (site / "median_package" / "method.py").write_text((folder / "fedmedian.py").read_text())
        (site / "median_package" / "parts.py").write_text(PARTS)
        monkeypatch.syspath_prepend(site)

    yield made
    for name in [name for name in sys.modules if name.startswith("median_package")]:
        del sys.modules[name]


def test_all_four_kinds(install, call: Call) -> None:
    install(POINTS)
    assert "fedmedian" in methods
    assert "The median of prototypes" in call("list", "methods").out
    assert "--lam NUMBER" in call("run", "fedmedian", "--help").out
    own = ("--data", "dots", "--partition", "thirds", "--models", "line", "--clients", "3", "--rounds", "1")
    done = call("run", "fedmedian", *own, "--out", "r", "--quiet")
    assert done.code == 0, done.err
    found = json.loads(Path("r/about.json").read_text())["fingerprints"]
    assert found["package median-package"] == "1.2"
    assert call("resume", "r", "--rounds", "2", "--quiet").code == 0


def test_gone_again(call: Call) -> None:
    assert "fedmedian" not in list(methods)
    assert_refused(call("run", "fedmedian", *SMALL), "unknown method 'fedmedian'")


@pytest.mark.parametrize(
    ("points", "name", "words"),
    [
        (
            "a = median_package.nothing:A",
            "a",
            ["'a' of package median-package 1.2 cannot be loaded", "Module"],
        ),
        ("a = median_package.parts:Line", "a", ["none of the classes that derive from Algorithm"]),
        (
            "local = median_package.method:FedMedian",
            "local",
            ["package median-package 1.2: there is a built-in"],
        ),
    ],
)
def test_broken_packages(install, call: Call, points: str, name: str, words: list[str]) -> None:
    """One line where the name is used; other methods, and the list, still work."""
    install(f"[protofed.methods]\n{points}\n")
    assert_refused(call("run", name, *SMALL), *words)
    assert call("run", "fedproto", *SMALL, "--quiet", "--out", "r").code == 0
    assert call("list", "methods").code == 0
