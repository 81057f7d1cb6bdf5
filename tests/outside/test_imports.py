"""Data, partitions and models of the user's: registered by `--import FILE`, or named FILE.py:NAME."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from refusals import Call, assert_refused

import protofed

PARTS = '''
from dataclasses import dataclass
import numpy as np
from torch import nn
from protofed.core.options import option
from protofed.data import Dataset, Partitioner, Rows, Source, Split, partitions, sources
from protofed.models.base import Family, Model, families


@sources.register("rings")
@dataclass(frozen=True)
class Rings(Source):
    """Points on rings."""

    rings: int = option(3, "number of rings", low=2)

    def load(self) -> Dataset:
        rng = np.random.default_rng(0)
        y = rng.integers(self.rings, size=300)
        x = np.stack([1 + y, rng.normal(size=300)], axis=1).astype(np.float32)
        return Dataset("rings", x, y, np.arange(300) >= 200, tuple("abcdef"[: self.rings]))


@partitions.register("turns")
@dataclass(frozen=True)
class Turns(Partitioner):
    """Rows in turns."""

    def split(self, dataset, clients, seed):
        train, test = np.flatnonzero(~dataset.test), np.flatnonzero(dataset.test)
        parts = [[rows[k::clients] for k in range(clients)] for rows in (train, test)]
        return Split(Rows.of(parts[0]), Rows.of(parts[1]))


@families.register("line")
@dataclass(frozen=True)
class Line(Family):
    """One linear layer."""

    dim: int = option(4, "size of the embedding", low=1)

    def build(self, shape, num_classes):
        return Model(nn.Linear(shape[0], self.dim), nn.Linear(self.dim, num_classes))


def load(rows=60, words=False):
    rng = np.random.default_rng(1)
    y = rng.integers(3, size=rows)
    x = np.eye(3)[y] + 0.1 * rng.normal(size=(rows, 3))
    return x, np.array(["ant", "bee", "cat"])[y] if words else y


def halves():
    x, y = load()
    return x, y, np.arange(60) < 30


def wrong():
    return 3


def broken():
    raise RuntimeError("no disk")
'''
OWN = ("--data", "rings:rings=4", "--partition", "turns", "--models", "line:dim=6")
FEW = ("--clients", "3", "--rounds", "1", "--quiet")


@pytest.fixture
def parts(call: Call, folder: Path) -> Call:
    (folder / "parts.py").write_text(PARTS)
    return call


def test_import_in_every_command(parts: Call) -> None:
    done = parts("run", "fedproto", "--import", "parts.py", *OWN, *FEW, "--newcomers", "1", "--out", "r")
    assert done.code == 0, done.err
    assert json.loads(Path("r/config.json").read_text())["imports"] == ["parts.py"]
    assert parts("resume", "r", "--rounds", "2", "--quiet").code == 0
    assert parts("report", "r", "--out", "r.html", "--quiet").code == 0
    assert parts("onboard", "r", "--epochs", "1", "--models", "line:dim=6").code == 0
    few = (*OWN, *FEW, "--seeds", "1")
    assert parts("compare", "local", "fedproto", "--import=parts.py", *few, "--out", "c").code == 0
    assert parts("sweep", "local", "--import", "parts.py", "--over", "lr=0.1", *few, "--out", "s").code == 0
    assert "rings" in parts("list", "data", "--import", "parts.py").out
    shown = parts("partition", "turns", "--import", "parts.py", "--data", "rings", "--clients", "2")
    assert (shown.code, "2 clients" in shown.out) == (0, True)


def test_imports_in_python_and_recipes(parts: Call, folder: Path) -> None:
    setting = {"data": "rings", "partition": "turns", "models": "line", "clients": 3, "rounds": 1}
    result = protofed.run("fedproto", imports=["parts.py"], **setting)
    assert result.config.imports == ("parts.py",)
    lines = [f"{key} = {json.dumps(value)}" for key, value in setting.items()]
    (folder / "lab").mkdir()
    (folder / "parts.py").rename(folder / "lab" / "parts.py")
    (folder / "lab" / "r.toml").write_text("\n".join(["method = 'local'", "imports = ['parts.py']", *lines]))
    assert parts("run", "lab/r.toml", "--quiet", "--out", "r").code == 0


def test_a_registered_method_by_its_name(call: Call, folder: Path) -> None:
    """A file may register its class too; --help knows it then by its name."""
    text = (
        (folder / "fedmedian.py")
        .read_text()
        .replace("@dataclass", '@methods.register("fedmedian")\n@dataclass')
    )
    (folder / "fedmedian.py").write_text(text.replace("    ce,", "    ce,\n    methods,"))
    assert "--lam NUMBER" in call("run", "fedmedian", "--import", "fedmedian.py", "--help").out
    small = ("--models", "mlp", *FEW)
    assert call("run", "fedmedian", "--import", "fedmedian.py", *small, "--out", "r").code == 0
    assert call("run", "fedmedian.py:FedMedian", *small, "--out", "s").code == 0


@pytest.mark.parametrize(
    ("data", "classes", "tests"),
    [
        ("parts.py:load", ("0", "1", "2"), 12),
        ("parts.py:load:rows=90,words=true", ("ant", "bee", "cat"), 18),
        ("parts.py:halves", ("0", "1", "2"), 30),
        ("parts.py:Rings:rings=2", ("a", "b"), 100),
    ],
)
def test_data_by_function(parts: Call, data: str, classes: tuple[str, ...], tests: int) -> None:
    """Without a mark every fifth row is for testing: 12 of 60, 18 of 90."""
    from protofed.data import load

    found = load(data)
    assert (found.classes, int(found.test.sum())) == (classes, tests)
    assert parts("run", "local", "--data", data, "--partition", "iid", "--models", "mlp", *FEW).code == 0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("parts.py:lode", ["has no 'lode'", "functions and sources in it: Rings, load, halves"]),
        ("parts.py:load:row=3", ["unknown option 'row'; did you mean 'rows'?"]),
        ("parts.py:load:rows=x", ["rows: expected a whole number, got 'x'"]),
        ("parts.py:wrong", ["expected a Dataset, (x, y) or (x, y, test), got a int"]),
        ("parts.py:broken", ["parts.py, line", "in broken: RuntimeError: no disk"]),
        ("gone.py:load", ["no file 'gone.py'"]),
    ],
)
def test_mistakes_in_data(parts: Call, data: str, words: list[str]) -> None:
    assert_refused(parts("run", "local", "--data", data, "--partition", "iid", *FEW), *words)


def test_a_partition_by_class(parts: Call) -> None:
    settings = ("--partition", "parts.py:Turns", "--models", "mlp", *FEW)
    assert parts("run", "local", *settings, "--out", "r").code == 0
    assert "parts.py" in json.loads(Path("r/about.json").read_text())["fingerprints"]
