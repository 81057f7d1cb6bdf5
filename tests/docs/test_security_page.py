"""The page on security: every promise names a test that exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@cache
def functions(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_the_named_test_exists(file, name):
    assert name in functions(file)


def test_every_row_of_promises_names_one():
    tables = re.findall(r"\| (?:promise|found) \| test \|\n\|---\|---\|\n((?:\|.*\n)+)", PAGE)
    assert len(tables) >= 6
    rows = [row for table in tables for row in table.splitlines()]
    assert all("::test_" in row for row in rows), rows


def test_files_that_the_page_names_are_there():
    for file in re.findall(r"`((?:protofed|benchmarks)/[\w/]+\.py)`", PAGE):
        assert (ROOT / file).is_file(), file
