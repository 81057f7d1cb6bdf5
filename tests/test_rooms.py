"""Every folder tells what is in it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "protofed"
ROOMS = ("analysis", "core", "deploy", "engines", "flower", "metrics", "ops", "reports", "runs", "use")


@pytest.mark.parametrize("room", ROOMS)
def test_the_table_of_contents_names_every_file(room: str) -> None:
    contents = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text())) or ""
    named = set(re.findall(r"\b(\w+)\.py\b", contents))
    there = {path.stem for path in (ROOT / room).glob("*.py")} - {"__init__"}
    assert named == there
