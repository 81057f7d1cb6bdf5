"""The measures of the code, on a tree small enough to count by hand."""

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


@pytest.fixture
def walks():
    spec = importlib.util.spec_from_file_location("walks", SCRIPT.with_name("walks.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def test_files_of_a_walk(walks):
    """Two batches and an upload, written down by hand."""
    rows = [
        ("call", "algorithms/a.py", "loss", "core/loop.py"),
        ("call", "algorithms/a.py", "loss", "core/loop.py"),
        ("call", "core/net.py", "__call__", "algorithms/a.py"),
        ("call", "ops/losses.py", "ce", "algorithms/a.py"),
        ("return", "algorithms/a.py", "loss", "core/loop.py"),
        ("call", "algorithms/a.py", "loss", "core/loop.py"),
        ("return", "algorithms/a.py", "aggregate", "engines/round.py"),
        ("return", "algorithms/a.py", "upload", "core/loop.py"),
        ("call", "engines/wire.py", "pack", "core/loop.py"),
        ("return", "algorithms/a.py", "aggregate", "engines/round.py"),
    ]
    events = [walks.Event(seconds, *row) for seconds, row in enumerate(rows)]
    crossed = walks.batch(events)
    assert crossed.files == ["algorithms/a.py", "core/loop.py", "core/net.py"]
    assert crossed.without_leaves == ["algorithms/a.py", "core/loop.py"]
    crossed = walks.upload(events)
    assert crossed.files == ["core/loop.py", "engines/wire.py"]
    assert crossed.without_leaves == ["core/loop.py"]


def test_the_way_of_a_batch_is_traced(walks):
    """In this tree: from the method's hook through the network to the optimiser."""
    package = SCRIPT.parents[1] / "protofed"
    crossed = walks.walk(package, "a batch, sequential")
    assert {"algorithms/fedproto.py", "core/net.py", "core/optim.py"} <= set(crossed.files)
    assert "algorithms/fedproto.py" in crossed.without_leaves
    assert not any(file.startswith("engines/") for file in crossed.without_leaves)
