"""The measures of the code, on a tree small enough to count by hand."""

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "house.py"
SHARED = "\n".join(f"    x = x + {n}" for n in range(6))
FILES = {
    "protofed/core/net.py": f'''"""A module."""
import os


class Base:
    """A base."""

    def hook(self):
        """To be overridden."""
        raise ValueError("no value")


class Net(Base):
    def hook(self):
        raise ValueError(f"bad {{os.name}}")

    def other(self):
        pass


def first(x):
{SHARED}
    return x
''',
    "protofed/data/net.py": f'''class _Own:
    def free(self):
        pass


class Net:
    """Another of this name."""


def second(x):
    # a comment is passed over
    y = x

{SHARED}


def long():
    """Long."""
{chr(10).join(f"    y{n} = {n}" for n in range(50))}
''',
    "protofed/algorithms/one.py": "class Record:\n    '''A.'''\nclass Up(Record):\n    '''B.'''\n",
    "protofed/algorithms/two.py": "class Up(Record):\n    '''C.'''\n",
    "protofed/cli/one.py": "",
    "tests/test_one.py": "\n" * 10,
}


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def house(tree, *arguments):
    command = [sys.executable, str(SCRIPT), "--tree", str(tree), "--no-walks", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_measures_of_a_small_tree(tree):
    found = json.loads(house(tree, "--json"))
    lines = sum(len(text.splitlines()) for name, text in FILES.items() if name.startswith("protofed"))
    assert (found["library files"], found["library lines"]) == (5, lines)
    assert found["lines of tests to library"] == round(10 / lines, 2)
    assert [row.split()[1] for row in found["functions over 50 lines"]] == ["long"]
    assert [row.split()[1] for row in found["public without docstring"]] == [
        "Net",
        "other",
        "first",
        "second",
    ]
    assert found["errors that show the bad value, %"] == 50.0
    assert found["literal duplicates"] == ["core/net.py:22-27 ~ data/net.py:14-19"]
    assert found["classes of one name"] == ["Net: core/net.py, data/net.py"]
    assert found["modules of one name"] == ["net: core/net.py, data/net.py"]


def test_the_table_counts_lists_and_shows_them_below(tree):
    lines = house(tree).splitlines()
    assert "literal duplicates                   1" in lines
    assert "literal duplicates: core/net.py:22-27 ~ data/net.py:14-19" in lines


def test_files_of_a_walk(monkeypatch):
    """Two batches and an upload, written down by hand: (kind, file, function, other file, has the upload)."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    walks = importlib.import_module("walks")
    rows = [
        ("call", "algorithms/a.py", "loss", "core/loop.py", False),
        ("call", "algorithms/a.py", "loss", "core/loop.py", False),
        ("call", "core/net.py", "__call__", "algorithms/a.py", False),
        ("call", "ops/losses.py", "ce", "algorithms/a.py", False),
        ("return", "algorithms/a.py", "loss", "core/loop.py", False),
        ("call", "algorithms/a.py", "loss", "core/loop.py", False),
        ("return", "algorithms/a.py", "aggregate", "engines/round.py", False),
        ("call", "core/loop.py", "finish", "engines/round.py", False),
        ("call", "algorithms/a.py", "upload", "core/loop.py", False),
        ("return", "algorithms/a.py", "upload", "core/loop.py", True),
        ("call", "engines/checks.py", "check", "core/loop.py", True),
        ("return", "engines/checks.py", "check", "core/loop.py", True),
        ("call", "core/task.py", "sizes", "core/loop.py", False),
        ("return", "core/loop.py", "finish", "engines/round.py", True),
        ("return", "algorithms/a.py", "aggregate", "engines/round.py", False),
    ]
    events = [walks.Event(seconds, *row) for seconds, row in enumerate(rows)]
    crossed = walks.batch(events)
    assert crossed == (["core/loop.py", "core/net.py"], ["core/loop.py"])
    crossed = walks.upload(events)
    assert crossed.files == ["core/loop.py", "engines/checks.py", "engines/round.py"]
    assert crossed.without_leaves == ["core/loop.py"]


def test_walks_are_traced():
    """In a process of its own, because it registers a method."""
    command = [sys.executable, "-W", "ignore", str(SCRIPT.with_name("walks.py"))]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert {"core/net.py", "core/optim.py"} <= set(found["a batch, sequential"]["files"])
    assert "engines/cohort.py" in found["a batch, cohort"]["files"]
    for engine in ("workers", "workers+cohort"):
        assert "engines/worker_process.py" in found[f"an upload, {engine}"]["without_leaves"]
    deployed = found["an upload, deployed"]
    if importlib.util.find_spec("flwr") is not None:
        assert "flower/codec.py" in deployed["files"]
